#include "mountctl/doctor.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/fileio.h"

#define TEXT_MAX (1u << 20)

char *doctor_text(const char *path)
{
	char *text = NULL;
	size_t size;

	if (read_file_at(AT_FDCWD, path, TEXT_MAX, &text, &size) < 0)
		return NULL;
	while (size > 0 && isspace((unsigned char)text[size - 1]))
		text[--size] = '\0';
	return text;
}

long long doctor_number(const char *path)
{
	autofree char *text = doctor_text(path);
	long long number;
	char *end;

	if (!text || !*text)
		return -1;
	number = strtoll(text, &end, 10);
	return *end ? -1 : number;
}

bool doctor_may(cap_value_t capability)
{
	cap_flag_value_t value = CAP_CLEAR;
	cap_t caps = cap_get_proc();

	if (caps)
		cap_get_flag(caps, capability, CAP_EFFECTIVE, &value);
	cap_free(caps);
	return value == CAP_SET;
}

static bool is_program(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       access(path, X_OK) == 0;
}

char *doctor_find(const char *program)
{
	const char *path = getenv("PATH");

	while (path && *path) {
		size_t length = strcspn(path, ":");
		char *file;

		if (asprintf(&file, "%.*s/%s", (int)length, path, program) < 0)
			return NULL;
		if (is_program(file))
			return file;
		free(file);
		path += length;
		path += *path == ':';
	}
	return NULL;
}
