#!/bin/bash
# What a hook has to deny it denies, however it is spelled (tests/fuzz/hook.c).
# More by hand: build/tests/fuzz-hook SEED COUNT
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

for seed in 1 2 3; do
	t_ok "calls of seed $seed are denied, whole or damaged" \
		"$T_BUILD/tests/fuzz-hook" "$seed" "${T_FUZZ_COUNT:-4000}"
done
t_done
