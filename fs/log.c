#include "fs/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

void log_line(const char *format, ...)
{
	char stamp[32], text[1024];
	time_t now = time(NULL);
	struct tm tm;
	va_list args;

	localtime_r(&now, &tm);
	strftime(stamp, sizeof(stamp), "%FT%T%z", &tm);
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	fprintf(stderr, "%s worktreefs: %s\n", stamp, text);
}
