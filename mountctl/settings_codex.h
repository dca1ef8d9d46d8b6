/*
 * A permission profile of Codex, in TOML.
 */
#ifndef WORKTREEFS_SETTINGS_CODEX_H
#define WORKTREEFS_SETTINGS_CODEX_H

#include <stdio.h>

#include "mountctl/settings.h"

/* As the text of a config.toml. */
void settings_codex_print(FILE *out, const struct settings *settings);

/*
 * As arguments: each of "-c" and "KEY=VALUE" with this byte behind it. There is
 * no newline in any of them.
 */
void settings_codex_print_args(FILE *out, const struct settings *settings,
			       char end);

#endif
