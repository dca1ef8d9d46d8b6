#!/bin/bash
# Every C file is as clang-format leaves it.
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"

t_need clang-format

# Other versions break other lines.
wanted=14
version=$(clang-format --version | sed -n 's/.*version \([0-9]*\).*/\1/p')
if [ "$version" != "$wanted" ]; then
	t_skip "C files are formatted" \
		"the tree is laid out by clang-format $wanted, this is $version"
	t_done
fi

unformatted() {
	local file
	for file in $(find fs mountctl tests -name '*.[ch]' | sort); do
		clang-format --dry-run --Werror "$file" >/dev/null 2>&1 ||
			echo "$file"
	done
}

cd "$T_SRC" || exit 1
t_is "C files are formatted (else: clang-format -i FILE)" "$(unformatted)" ""
t_done
