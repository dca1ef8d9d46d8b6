#!/bin/bash
# t-policy.sh behind `mountctl run`.
export T_MODE=run
# shellcheck source=tests/e2e/t-policy.sh
. "$T_SRC/tests/e2e/t-policy.sh"
