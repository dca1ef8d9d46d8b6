#!/bin/bash
# What git runs on the user's side: keys of its configuration, in each file that
# has some, hooks, attributes, and pointers to other git directories. Each is
# shown to run a program where nobody guards; behind the guard it can't be
# planted, and the user's next commands run nothing.
# shellcheck disable=SC2317 # tables are called by name
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

# Runs a command as if at a terminal: pagers want one.
if command -v script >/dev/null; then
	terminal="script -qec"
else
	terminal=
fi

# KEY|VALUE|what the user does next, in main, and it runs $C. "-" for what this
# git has not, or runs where it can't be tried here.
keys() {
	cat <<-'END'
		core.hooksPath|$E/hooks|git commit -q --allow-empty -m x
		core.fsmonitor|$C|git status
		core.sshCommand|$C|git fetch ssh://host.invalid/x
		core.pager|$C|$TERMINAL "git log -1" /dev/null
		core.editor|$C|git commit --allow-empty
		core.gitProxy|$C|git fetch git://host.invalid/x
		core.askPass|$C|printf 'protocol=https\nhost=h\n\n' | git credential fill
		core.alternateRefsCommand|$C|-
		hook.x.command|$C|-
		hook.x.event|pre-commit|-
		filter.x.clean|$C|echo y >>a.bin; git add a.bin
		filter.x.smudge|$C|rm a.bin; git checkout -q a.bin
		filter.x.process|$C|echo y >>a.bin; git add a.bin
		diff.x.command|$C|echo y >>a.bin; git diff
		diff.x.textconv|$C|git log -p
		diff.external|$C|echo y >>a.bin; git diff
		merge.x.driver|$C %O %A %B|git merge -q left
		merge.default|x|-
		alias.x|!$C|git x
		alias.x|!$C|git -C "$W" x
		credential.helper|$C|printf 'protocol=https\nhost=h\n\n' | git credential fill
		credential.https://h.helper|$C|printf 'protocol=https\nhost=h\n\n' | git credential fill
		gpg.program|$C|git commit -q -S --allow-empty -m x
		gpg.openpgp.program|$C|git commit -q -S --allow-empty -m x
		gpg.x509.program|$C|git -c gpg.format=x509 commit -q -S --allow-empty -m x
		gpg.ssh.program|$C|git -c gpg.format=ssh -c user.signingKey=/dev/null commit -q -S --allow-empty -m x
		gpg.ssh.defaultKeyCommand|$C|git -c gpg.format=ssh commit -q -S --allow-empty -m x
		sequence.editor|$C|git stash -q; git rebase -i HEAD^
		pager.log|$C|$TERMINAL "git log -1" /dev/null
		remote.origin.uploadpack|$C|git fetch -q origin
		remote.origin.receivepack|$C|git push -q origin main
		remote.origin.vcs|planted|PATH=$E:$PATH git fetch -q origin
		remote.origin.url|$E/evil.git|git push -q origin main
		remote.origin.pushurl|$E/evil.git|git push -q origin main
		remote.pushDefault|$E/evil.git|git -c push.default=current push -q
		remote.origin.proxy|http://proxy.invalid|-
		branch.main.remote|$E/evil.git|git -c push.default=current push -q
		branch.main.pushRemote|$E/evil.git|git -c push.default=current push -q
		url.$E/evil.git.insteadOf|$BASE/remote.git|git push -q origin main
		url.$E/evil.git.pushInsteadOf|$BASE/remote.git|git push -q origin main
		url.ext::$C.insteadOf|$BASE/remote.git|git -c protocol.ext.allow=always fetch -q origin
		protocol.ext.allow|always|git fetch -q "ext::$C"
		protocol.allow|always|git fetch -q "ext::$C"
		include.path|$E/config|git status
		includeIf.gitdir:/.path|$E/config|git status
		includeIf.onbranch:main.path|$E/config|git status
		submodule.sub.update|!$C|git submodule --quiet update
		mergetool.x.cmd|$C|git merge -q left; git mergetool -y -t x
		mergetool.vimdiff.path|$C|git merge -q left; git mergetool -y -t vimdiff
		difftool.x.cmd|$C|echo y >>a.bin; git difftool -y -t x
		difftool.vimdiff.path|$C|echo y >>a.bin; git difftool -y -t vimdiff
		interactive.diffFilter|$C|echo y >>a.bin; $TERMINAL "git add -p" /dev/null
		trailer.x.cmd|$C|echo a | git interpret-trailers --trailer x=1
		trailer.x.command|$C|echo a | git interpret-trailers
		tar.x.command|$C|git archive --format=x HEAD
		man.x.cmd|$C|git -c man.viewer=x help git
		browser.x.cmd|$C|git -c web.browser=x web--browse http://h.invalid
		guitool.x.cmd|$C|-
		sendemail.smtpServer|$C|-
		uploadpack.packObjectsHook|$C|-
		core.attributesFile|$E/attributes|-
		core.excludesFile|$E/excludes|-
		core.bare|true|-
		core.worktree|$E|-
		core.repositoryFormatVersion|99|-
		core.sparseCheckout|true|-
		core.logAllRefUpdates|false|-
		core.sharedRepository|world|-
		extensions.partialClone|origin|-
		extensions.objectFormat|sha256|-
		extensions.noop|x|-
		gc.pruneExpire|now|-
		gc.reflogExpire|now|-
		fetch.prune|true|-
		remote.origin.fetch|+refs/heads/*:refs/heads/*|-
		remote.origin.mirror|true|-
		remote.origin.promisor|true|-
		transfer.fsckObjects|false|-
		receive.denyCurrentBranch|ignore|-
		http.proxy|http://proxy.invalid|-
		http.sslVerify|false|-
		user.name|Somebody|-
		user.email|somebody@example.invalid|-
		user.signingKey|x|-
		author.name|Somebody|-
		committer.email|somebody@example.invalid|-
		branch.main.merge|refs/heads/topic|-
		branch.main.rebase|true|-
		branch.sib.description|words|-
		branch.wt.mergeOptions|--strategy=ours|-
		branch.wt.remote|$E/evil.git|-
		branch.wt.pushRemote|ext::$C|-
		remote.own.url|$E/evil.git|-
		remote.own.url|ext::$C|-
		submodule.own.url|$E/evil.git|-
		submodule.own.update|!$C|-
		submodule.recurse|true|-
		worktreefs.rw|.git/hooks|-
		worktreefs.safeConfig|core.*|-
		alias.st|!$C|git st
	END
}

# KEY in $E's terms, for whoever acts.
g_expand() {
	local text=$1
	text=${text//\$BASE/$BASE}
	text=${text//\$E/$E}
	printf '%s' "${text//\$C/$C}"
}

user_does() {
	g_words
	(cd "$M" && exec "${g_with[@]}" TERM=xterm "TERMINAL=$terminal" \
		timeout -k 5 30 bash -c "${1//\$TERMINAL/$terminal}") \
		</dev/null >"$BASE.user" 2>&1
}

# The key with its value as $K and $V, in a script for g_do.
g_with_key() {
	printf 'K=%q V=%q\n%s' "$(g_expand "$1")" "$(g_expand "$2")" "$3"
}

# shellcheck disable=SC2016 # expanded there
way='git config --add "$K" "$V"'

# Three ways to write it: by git, into the file, and over the file. Each prints
# its status.
# shellcheck disable=SC2016 # expanded there
ways='
	git config --add "$K" "$V"
	echo $?
	cp "$G/config" "$E/edited"
	git config --file "$E/edited" --add "$K" "$V"
	cat "$E/edited" >"$G/config"
	echo $?
	cp "$E/edited" "$G/config.lock" && mv "$G/config.lock" "$G/config"
	echo $?
	rm -f "$G/config.lock"
	mv "$E/edited" "$G/config"
	echo $?'

control() {
	local key value trigger ran='' want=''
	g_be root control
	g_repository || exit 1
	g_save
	while IFS='|' read -r key value trigger <&3; do
		g_restore
		[ "$trigger" != - ] || continue
		if [ -z "$terminal" ] && [[ $trigger == *TERMINAL* ]]; then
			t_skip "unguarded it runs: $key" "there is no script(1)"
			continue
		fi
		want+="$key "
		g_unguarded "$(g_with_key "$key" "$value" "$way")"
		user_does "$trigger"
		if [ -n "$(g_planted)" ]; then
			ran+="$key "
		else
			t_fail "unguarded it runs: $key"
			t_diag "status $T_STATUS: $T_STDERR"
			t_diag "$(head -20 "$BASE.user")"
		fi
	done 3< <(keys)
	g_restore
	t_is "unguarded, all keys run something" "$ran" "$want"
}

# Behind the guard: no way writes the key, and the trigger runs nothing.
refuse_keys() {
	local key value trigger bad before
	before=$(sha256sum <"$G/config")
	while IFS='|' read -r key value trigger <&3; do
		bad=
		g_do "$(g_with_key "$key" "$value" "$ways")"
		[[ " ${T_STDOUT//$'\n'/ } " != *" 0 "* ]] ||
			bad="statuses: ${T_STDOUT//$'\n'/ }"
		[[ $T_STDERR == *"$g_read_only"* ]] ||
			bad+=" no word of $g_read_only"
		[ "$(sha256sum <"$G/config")" = "$before" ] ||
			bad+=" the config has changed"
		if [ "$trigger" != - ]; then
			user_does "$trigger"
			[ -z "$(g_planted)" ] || bad+=" and it ran"
			g_restore
		fi
		if [ -z "$bad" ]; then
			t_pass "$g_label: $key"
		else
			t_fail "$g_label: $key"
			t_diag "$bad"
			t_diag "${T_STDERR:0:1000}"
			g_restore
		fi
	done 3< <(keys)
}

# In the config of a worktree, which git reads once an extension says so: one
# script for all keys, since git runs them alike.
# shellcheck disable=SC2016 # expanded there
worktree_ways='
	for file in "$A/config.worktree" "$G/config.worktree"; do
		cp "$E/none" "$E/edited"
		git config --file "$E/edited" --add "$K" "$V"
		cat "$E/edited" >"$file" && echo "$K: in place"
		mv -T "$E/edited" "$file" && echo "$K: over it"
		[ ! -e "$file" ] || cp "$file" "$E/edited"
		git config --file "$E/edited" --add "$K" "$V"
		if cp "$E/edited" "$file.lock"; then
			mv "$file.lock" "$file" && echo "$K: by its lock"
			rm -f "$file.lock"
		fi
		rm -f "$E/edited"
	done
	git config --worktree --add "$K" "$V" && echo "$K: by git"
	git -C "$M" config --worktree --add "$K" "$V" && echo "$K: in main"'

# shellcheck disable=SC2016 # expanded there
refuse_worktree_keys() {
	local key value trigger script=': >"$E/none"'
	g_do 'git config extensions.worktreeConfig true'
	t_is "$g_label: extensions.worktreeConfig is safe here" "$T_STATUS" 0
	t_is "$g_label: main is a checkout all the same" \
		"$(s_as git -C "$M" rev-parse --is-bare-repository)" false
	g_do 'git config --worktree core.sparseCheckout true'
	t_is "$g_label: and a worktree's sparse-checkout" "$T_STATUS" 0
	cp "$A/config.worktree" "$BASE.worktree"
	while IFS='|' read -r key value trigger <&3; do
		[ "$key" != core.sparseCheckout ] || continue
		script+=$'\n'$(g_with_key "$key" "$value" "$worktree_ways")
	done 3< <(keys)
	g_do "$script"
	t_is "$g_label: no key gets into config.worktree" "$T_STDOUT" ""
	t_ok "$g_label: which is what it was" \
		cmp "$A/config.worktree" "$BASE.worktree"
	t_not "$g_label: and main has none" test -e "$G/config.worktree"
}

# NAME|EXPECTED|HURT|SCRIPT, as in support/gitguard.sh. runs: the user's next
# commands run $C.
files() {
	local name
	while read -r name; do
		echo "hook $name|EROFS|-|cp \"\$C\" \"\$G/hooks/$name\""
	done < <(g_hooks)
	cat <<-'END'
		an existing hook, written|EROFS|runs|cat "$C" >"$G/hooks/pre-commit"
		an existing hook, appended to|EROFS|-|echo x >>"$G/hooks/pre-commit"
		an existing hook, replaced|EROFS|runs|cp "$C" "$G/held"; mv "$G/held" "$G/hooks/pre-commit"; s=$?; rm -f "$G/held"; exit $s
		an existing hook, removed|EROFS|-|rm -f "$G/hooks/pre-commit"
		an existing hook, disarmed|EROFS|-|chmod a-x "$G/hooks/pre-commit"
		hooks, another directory|fails|runs|cp -r "$E/hooks" "$G/held"; "$SYSOP" rename "$G/held" "$G/hooks" exchange; s=$?; rm -rf "$G/held"; exit $s
		hooks, moved away|EROFS|-|"$SYSOP" rename "$G/hooks" "$G/held"
		hooks, a symlink|fails|runs|"$SYSOP" rename "$G/hooks" "$G/held"; ln -s "$E/hooks" "$G/hooks"
		a hook by a link|EROFS|-|cp "$C" "$G/held"; ln "$G/held" "$G/hooks/post-commit"; s=$?; rm -f "$G/held"; exit $s
		a hook by a symlink|EROFS|runs|ln -s "$C" "$G/hooks/post-commit"
		attributes|EROFS|-|echo '* filter=x' >"$G/info/attributes"
		excludes|EROFS|-|echo '*' >>"$G/info/exclude"
		sparse-checkout of main|EROFS|-|echo /x >"$G/info/sparse-checkout"
		info, moved away|EROFS|-|"$SYSOP" rename "$G/info" "$G/held"
		commondir|EROFS|runs|echo "$E/common" >"$G/commondir"
		commondir by a rename|EROFS|runs|echo "$E/common" >"$G/held"; mv "$G/held" "$G/commondir"; s=$?; rm -f "$G/held"; exit $s
		commondir by a rename that replaces nothing|EROFS|runs|echo "$E/common" >"$G/held"; "$SYSOP" rename "$G/held" "$G/commondir" noreplace; s=$?; rm -f "$G/held"; exit $s
		commondir by a link|EROFS|runs|echo "$E/common" >"$G/held"; ln "$G/held" "$G/commondir"; s=$?; rm -f "$G/held"; exit $s
		commondir by a symlink|EROFS|runs|echo "$E/common" >"$E/c"; ln -s "$E/c" "$G/commondir"
		config.worktree of main|EROFS|-|cp "$E/config" "$G/config.worktree"
		a submodule's config|EROFS|runs|cat "$E/config" >>"$G/modules/sub/config"
		a submodule's config by git|fails|runs|git -C "$M/sub" config core.fsmonitor "$C"
		a submodule's hook|EROFS|-|cp "$C" "$G/modules/sub/hooks/post-checkout"
		a submodule's commondir|EROFS|runs|echo "$E/common" >"$G/modules/sub/commondir"
		a submodule's HEAD|EROFS|-|git rev-parse main >"$G/modules/sub/HEAD"
		a nested submodule's config|EROFS|-|mkdir -p "$G/modules/a/b" && cp "$E/config" "$G/modules/a/b/config"
		a new submodule|EROFS|-|cp -r "$E/common" "$G/modules/new"
		modules, moved away|EROFS|-|"$SYSOP" rename "$G/modules" "$G/held"
		branches|EROFS|-|mkdir -p "$G/branches" && echo "$E/evil.git" >"$G/branches/origin"
		remotes|EROFS|-|mkdir -p "$G/remotes" && echo "URL: $E/evil.git" >"$G/remotes/own"
		a rebase of main's|EROFS|git rebase --continue; test -e "$BASE/planted"|d=$G/rebase-merge; mkdir "$d" && git rev-parse main >"$d/onto" && git rev-parse main >"$d/orig-head" && echo refs/heads/main >"$d/head-name" && echo "exec $C" >"$d/git-rebase-todo" && echo 1 >"$d/end" && echo 1 >"$d/msgnum" && : >"$d/interactive" && : >"$d/done"
		a rebase of main's, moved there|fails|git rebase --continue; test -e "$BASE/planted"|d=$G/held; mkdir "$d" && git rev-parse main >"$d/onto" && git rev-parse main >"$d/orig-head" && echo refs/heads/main >"$d/head-name" && echo "exec $C" >"$d/git-rebase-todo" && echo 1 >"$d/end" && echo 1 >"$d/msgnum" && : >"$d/interactive" && : >"$d/done"; "$SYSOP" rename "$d" "$G/rebase-merge"; s=$?; rm -rf "$G/held"; exit $s
		a patch of main's|EROFS|-|mkdir "$G/rebase-apply"
		a sequence of main's|EROFS|-|mkdir "$G/sequencer"
		a merge of main's|EROFS|-|git rev-parse topic >"$G/MERGE_HEAD"
		its message|EROFS|-|echo x >"$G/MERGE_MSG"
		a cherry-pick of main's|EROFS|-|git rev-parse topic >"$G/CHERRY_PICK_HEAD"
		a revert of main's|EROFS|-|git rev-parse topic >"$G/REVERT_HEAD"
		a bisection of main's|EROFS|-|echo main >"$G/BISECT_START"
		ORIG_HEAD of main|EROFS|-|git rev-parse topic >"$G/ORIG_HEAD"
		refs of a bisection of main's|EROFS|-|mkdir -p "$G/refs/bisect" && git rev-parse topic >"$G/refs/bisect/bad"
		commondir of the worktree|EROFS|runs|echo "$E/common" >"$A/commondir"
		commondir of the worktree, by a rename|EROFS|runs|echo "$E/common" >"$A/x"; mv "$A/x" "$A/commondir"; s=$?; rm -f "$A/x"; exit $s
		commondir of the worktree, exchanged|EROFS|runs|echo "$E/common" >"$A/x"; "$SYSOP" rename "$A/x" "$A/commondir" exchange; s=$?; rm -f "$A/x"; exit $s
		the worktree's pointer|fails|runs|echo "gitdir: $E/common" >"$W/.git"
		the worktree's pointer, replaced|fails|runs|echo "gitdir: $E/common" >"$W/x"; mv -f "$W/x" "$W/.git"; s=$?; rm -f "$W/x"; exit $s
		the worktree's pointer, moved away|fails|runs|mv "$W/.git" "$W/x" && echo "gitdir: $E/common" >"$W/.git"
		the worktree's pointer, a directory|fails|runs|rm -f "$W/.git" && mkdir "$W/.git" && cp -r "$E"/common/* "$W/.git/"
		admin directory, moved away|fails|-|"$SYSOP" rename "$A" "$G/held"
		main's alias with another's value|EROFS|git st; test -e "$M/zapped"|sed -i 's/st = status/st = !echo zap >zapped/;s/zap = .*/zap = status/' "$G/config"
		main's values swapped|EROFS|git st; test -e "$M/zapped"|zap=$(git config alias.zap); cp "$G/config" "$G/config.lock"; git config --file "$G/config.lock" alias.zap status; git config --file "$G/config.lock" alias.st "$zap"; mv "$G/config.lock" "$G/config"; s=$?; rm -f "$G/config.lock"; exit $s
		config emptied|EROFS|-|: >"$G/config"
		config removed|EROFS|-|rm -f "$G/config"
		config moved away|EROFS|-|mv "$G/config" "$G/held"
		config exchanged|EROFS|runs|cp "$E/config" "$G/held"; "$SYSOP" rename "$G/held" "$G/config" exchange; s=$?; rm -f "$G/held"; exit $s
		config by ln -f|EROFS|runs|cp "$E/config" "$G/held"; ln -f "$G/held" "$G/config"; s=$?; rm -f "$G/held"; exit $s
		config by ln -sf|EROFS|runs|ln -sf "$E/config" "$G/config"
		config in place|EROFS|-|"$SYSOP" open "$G/config" wronly
		config, mapped|EROFS|-|"$SYSOP" mmap_write "$G/config"
		config that git can't read|EROFS|-|echo '[' >"$G/config.lock"; mv "$G/config.lock" "$G/config"; s=$?; rm -f "$G/config.lock"; exit $s
		a removed section|EROFS|-|git config --remove-section alias
		a removed remote|fails|-|git remote remove origin
		a renamed remote|fails|-|git remote rename origin other
		another url for a remote|fails|runs|git remote set-url origin "$E/evil.git"
		another push url for a remote|fails|runs|git remote set-url --push origin "$E/evil.git"
		an upstream for main's branch|any|-|git branch --set-upstream-to=topic main
		a description for main's branch|EROFS|-|git config branch.main.description words
		git submodule init in main|fails|-|git -C "$M" config submodule.sub.url "$E/evil.git"
	END
}

files_with_signs() {
	files | sed "s:|runs|:|$user_reads; test -e \"\$BASE/planted\"|:"
}

# What the user does next, for the sake of the table.
# shellcheck disable=SC2016 # expanded there
user_reads='git status; command git -C "$W" status; git commit -q --allow-empty -m x; command git -C "$M/sub" status; git push -q origin main'

# While the judge reads what is to come, it changes.
racing() {
	g_do 'exec python3 - <<-"END"
		import os, threading

		g = os.environ["G"]
		with open(g + "/config") as f:
		    good = f.read()
		evil = good.replace("st = status", "st = !tests")
		assert evil != good
		stop = False
		fds = []


		def write():
		    while not stop:
		        for text in evil, good:
		            for fd in fds[-1:]:
		                os.pwrite(fd, text.encode(), 0)


		thread = threading.Thread(target=write)
		thread.start()
		passed = bad = 0
		for _ in range(150):
		    fd = os.open(g + "/config.lock",
		                 os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
		    os.write(fd, good.encode())
		    fds.append(fd)
		    try:
		        os.rename(g + "/config.lock", g + "/config")
		        passed += 1
		    except OSError:
		        os.unlink(g + "/config.lock")
		    with open(g + "/config") as f:
		        bad += f.read() != good
		stop = True
		thread.join()
		print(bad, passed > 0)
	END'
	t_is "$g_label: what changes under the judge's eyes" "$T_STDOUT" \
		"0 True"
}

# To judge a config, git is run outside of the session: neither by another name
# on PATH nor by the user's configuration does it do the session's bidding.
# shellcheck disable=SC2016 # expanded there
judged_by_git() {
	local before home key
	home=$("${as[@]}" sh -c 'echo "$HOME"')
	mkdir -p "$home/bin"
	s_own "$home/bin"
	before=$(t_fingerprint "$M" wt)
	g_do 'printf "#!/bin/sh\necho x >>%s/README.md\n%s\nexec %s \"\$@\"\n" \
			"$M" "$C" "$(command -v git)" >"$HOME/bin/git"
		chmod +x "$HOME/bin/git"
		for i in 1 2 3; do
			"$(PATH=${PATH#*:} command -v git)" \
				config branch.wt.description "$i"
		done
		rm "$HOME/bin/git"'
	t_is "$g_label: a git of the session's isn't run" "$(g_planted)" ""
	for key in normal perf event; do
		g_do "printf '[trace2]\n\t${key}Target = %s/README.md\n' \
				\"\$M\" >\"\$HOME/.gitconfig\"
			git config branch.wt.description words
			git config alias.x y
			rm \"\$HOME/.gitconfig\""
	done
	g_do 'git config --unset branch.wt.description
		git config --remove-section branch.wt'
	t_is "$g_label: nor does git's trace go into main" \
		"$(diff <(echo "$before") <(t_fingerprint "$M" wt))" ""
	rm -f "$BASE/planted"
	g_restore
}

# Who looks for programs in a directory of his own first.
own_path() {
	local i
	for i in "${!as[@]}"; do
		[[ ${as[i]} != PATH=* ]] ||
			as[i]=PATH=$T_USER_HOME/bin:${as[i]#PATH=}
	done
	[ "${#as[@]}" -gt 0 ] || as=(env "PATH=$HOME/bin:$PATH")
}

check() {
	g_repository || exit 1
	own_path
	g_save
	"$@"
	judged_by_git
	refuse_keys
	g_guarded_table files_with_signs
	racing
	g_goes_on ""
	refuse_worktree_keys
	g_goes_on ", with an extension"
	g_stop
	s_clear "nothing is left"
}

control
g_control_table files_with_signs
for somebody in $(s_everybody); do
	g_be "$somebody"
	check g_run
done
t_done
