#!/bin/bash
# Hooks that the user has installed run for commits in the worktree, too:
# scripts of his own, and those of lefthook and husky, where npm can get them.
# What installs hooks is refused behind the guard, and says so.
# shellcheck disable=SC2016 # scripts are expanded where they run
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

does() {
	local name=$1 text
	g_do "$2"
	text=$T_STDOUT$T_STDERR
	t_is "$g_label: $name" "$T_STATUS" 0 || t_diag "${text:0:1000}"
}

ran() {
	t_is "$g_label: $1" "$(cat "$BASE/ran" 2>/dev/null)" "$2"
	rm -f "$BASE/ran"
}

host() {
	s_as env "M=$M" "BASE=$BASE" "PATH=$BASE/tools/node_modules/.bin:$PATH" \
		bash -e -c "cd \"\$M\"; $1" >"$BASE.host" 2>&1
}

begin() {
	g_be user "$1"
	g_label=$1
	g_repository || exit 1
}

end() {
	g_stop
	g_goes_on ""
	s_clear "nothing is left"
}

# What pre-commit does around its checks: it puts away what isn't staged, in a
# patch in the user's cache, and applies that again.
own_scripts() {
	begin scripts
	host 'cat >.git/hooks/pre-commit <<-"END"
		#!/bin/sh
		set -e
		patch=$(mktemp)
		git diff --ignore-submodules --no-color --no-ext-diff >"$patch"
		git checkout -- .
		git diff --staged --name-only --diff-filter=ACMR >>"$BASE/ran"
		git write-tree >/dev/null
		git add -u
		[ ! -s "$patch" ] || git apply --whitespace=nowarn "$patch"
		rm "$patch"
	END
	cat >.git/hooks/commit-msg <<-"END"
		#!/bin/sh
		grep -q good "$1" || { echo "no good message" >&2; exit 1; }
	END
	cat >.git/hooks/post-commit <<-"END"
		#!/bin/sh
		git tag -f last >/dev/null
	END
	chmod +x .git/hooks/*'
	g_run --native auto
	does "a commit that its hooks let pass" \
		'echo a >a; git add a; echo more >>README.md
		git commit -q -m "a good one"'
	ran "pre-commit has seen what is staged" a
	t_is "$g_label: and left what isn't" \
		"$(s_as git -C "$W" status --porcelain)" " M README.md"
	t_is "$g_label: post-commit has tagged it" \
		"$(s_as git -C "$W" rev-parse last)" \
		"$(s_as git -C "$W" rev-parse HEAD)"
	g_do 'git checkout -q README.md; git commit -q --allow-empty -m bad'
	t_is "$g_label: a commit that one refuses" "$T_STATUS" 1
	t_is "$g_label: with its own words" "$T_STDERR" "no good message"
	g_do 'git config core.hooksPath "$E/hooks"'
	t_is "$g_label: other hooks are refused" "$T_STATUS" 4
	g_do 'cp "$C" "$G/hooks/pre-push"'
	t_is "$g_label: and more hooks" "$T_STATUS" 1
	host 'rm -f .git/hooks/{pre-commit,commit-msg,post-commit}'
	end
}

get_tools() {
	local name settings=()
	for name in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy \
		no_proxy NODE_EXTRA_CA_CERTS SSL_CERT_FILE \
		$(compgen -e | grep -i '^npm_config_'); do
		[ -z "${!name:-}" ] || settings+=("$name=${!name}")
	done
	s_as mkdir -p "$T_SCRATCH/user/tools"
	s_as env "${settings[@]}" npm_config_fetch_retries=0 \
		npm_config_fetch_timeout=30000 npm_config_fund=false \
		npm_config_audit=false npm install --silent \
		--prefix "$T_SCRATCH/user/tools" lefthook husky \
		>"$T_SCRATCH/npm" 2>&1
}

use_tools() {
	cp -a "$T_SCRATCH/user/tools" "$BASE/tools"
	s_own "$BASE"
	path="PATH=$BASE/tools/node_modules/.bin:\$PATH"
}

lefthook() {
	begin lefthook
	use_tools
	host 'printf "pre-commit:\n  commands:\n    a:\n      run: echo pre-commit >>%s/ran\n" \
			"$BASE" >lefthook.yml
		lefthook install
		git add lefthook.yml; git commit -q -m lefthook
		git -C wt merge -q main' || t_diag "$(cat "$BASE.host")"
	rm -f "$BASE/ran"
	g_run --native auto
	does "a commit" "$path; echo a >a; git add a; git commit -q -m a"
	ran "runs its hook" pre-commit
	does "a commit with other hooks in the worktree" "$path
		sed -i 's/run: .*/run: echo other >>\$BASE\/ran/' lefthook.yml
		git add lefthook.yml; git commit -q -m other"
	ran "runs them" other
	g_do "$path; lefthook install -f"
	t_is "$g_label: it can't install more" "$T_STATUS" 1
	t_like "$g_label: and says why" "$T_STDOUT$T_STDERR" \
		'[Rr]ead-only file system'
	rm -f "$BASE/ran"
	host 'lefthook uninstall' || t_diag "$(cat "$BASE.host")"
	end
}

husky() {
	begin husky
	use_tools
	host 'mkdir .husky
		printf "echo pre-commit >>%s/ran\n" "$BASE" >.husky/pre-commit
		husky
		git add .husky; git commit -q -m husky
		git -C wt merge -q main' || t_diag "$(cat "$BASE.host")"
	rm -f "$BASE/ran"
	g_run --native auto
	does "its prepare script" "$path; husky"
	does "a commit" "$path; echo a >a; git add a; git commit -q -m a"
	ran "runs its hook" pre-commit
	g_do "$path; husky elsewhere"
	t_is "$g_label: other hooks are refused" \
		"$(s_as git -C "$M" config core.hooksPath)" .husky/_
	end
}

own_scripts
if ! command -v npm >/dev/null; then
	t_skip "lefthook and husky" "there is no npm"
elif ! get_tools; then
	t_skip "lefthook and husky" "npm can't get them"
else
	lefthook
	husky
fi
t_done
