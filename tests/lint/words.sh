#!/bin/bash
# Nothing in the tree names the machine it was made on, or a package registry:
# packages come from whatever registry a machine is set up with.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

found() {
	find . \( -path ./.git -o -path './build' -o -path './build-*' -o \
		-path ./subprojects/packagecache -o \
		-path './subprojects/fuse-*' \) -prune -o -type f -print0 |
		sort -z | xargs -0 grep -InE -- "$1" | cut -c1-200
}

cd "$T_SRC" || exit 1
# The brackets keep this file from finding itself.
t_is "no machine's paths" "$(found \
	'(^|[^]A-Za-z0-9_.})*-])/(w[o]rk|r[o]ot)/')" ""
t_is "no registries' hosts" "$(found \
	'[a-z]+[.]debian[.]org/debian|(deb|security|snapshot)[.]debian[.]org|archive[.]ubuntu[.]com|npmjs[.](org|com)|pypi[.]org|pythonhosted[.]org|crates[.]io|proxy[.]golang[.]org|rubygems[.]org|maven[.]org|nodesource[.]com')" ""
t_done
