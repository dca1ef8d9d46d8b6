#!/bin/bash
# How the main checkout and other worktrees are hurt through the shared git
# directory: each way works where nobody guards, and behind the guard nothing
# that isn't the session's changes, byte for byte. What git's configuration and
# its hooks can do is in t-gitguard-keys.sh.
# shellcheck disable=SC2317 # tables are called by name
# shellcheck source=tests/support/lib.sh
. "$T_SRC/tests/support/lib.sh"
# shellcheck source=tests/support/session.sh
. "$T_SRC/tests/support/session.sh"
# shellcheck source=tests/support/gitguard.sh
. "$T_SRC/tests/support/gitguard.sh"

t_need git python3
t_user_make || exit 1

# The tables' format is told in support/gitguard.sh.
# HEAD, index and branch of main, and of a sibling.
moves() {
	cat <<-'END'
		git switch -c in main|EROFS|-|git -C "$M" switch -qc x; s=$?; git branch -q -D x; exit $s
		git switch in main|EROFS|-|git -C "$M" switch -q topic
		git checkout --detach in main|EROFS|-|git -C "$M" checkout -q --detach
		git reset --soft in main|EROFS|-|git -C "$M" reset -q --soft HEAD^
		git reset in main|EROFS|-|git -C "$M" reset -q HEAD^
		git add in main|EROFS|-|git -C "$M" add untracked
		git rm --cached in main|EROFS|-|git -C "$M" rm -q --cached README.md
		git update-index in main|EROFS|-|git -C "$M" update-index --assume-unchanged README.md
		git commit in main|EROFS|-|git -C "$M" commit -q --allow-empty -m x
		git commit --amend in main|EROFS|-|git -C "$M" commit -q --amend -m x
		git symbolic-ref HEAD in main|EROFS|-|git -C "$M" symbolic-ref HEAD refs/heads/topic
		git merge in main|EROFS|-|git -C "$M" merge -q --ff-only topic
		git revert in main|EROFS|-|git -C "$M" revert --no-edit HEAD
		git rebase in main|EROFS|-|git -C "$M" rebase -q topic
		git bisect in main|EROFS|-|git -C "$M" bisect start
		git read-tree in main|EROFS|-|git -C "$M" read-tree topic
		git notes in main, and a commit|EROFS|-|git -C "$M" commit -q -a -m x
		git --git-dir|EROFS|-|git --git-dir="$G" --work-tree="$W" add work
		git commit in a submodule of main|EROFS|-|git -C "$M/sub" commit -q --allow-empty -m x
		git reset --soft in a submodule of main|EROFS|-|git -C "$M/sub" reset -q --soft origin/main
		git submodule update in main|fails|-|git -C "$M" -c protocol.file.allow=always submodule --quiet update
		git switch in a sibling|EROFS|-|git -C "$S" switch -q --detach
		git commit in a sibling|EROFS|-|git -C "$S" commit -q --allow-empty -m x
		git add in a sibling|EROFS|-|echo x >"$S/x"; git -C "$S" add -A && git -C "$S" update-index --assume-unchanged README.md
		update-ref of main's branch|fails|-|git update-ref refs/heads/main topic
		update-ref of main's branch, without a reflog|fails|-|git -c core.logAllRefUpdates=false update-ref refs/heads/main topic
		update-ref -d of main's branch|packs|! git rev-parse -q --verify main|git update-ref -d refs/heads/main
		update-ref --stdin|fails|-|printf 'start\nupdate refs/tags/y %s\nupdate refs/heads/main %s\ncommit\n' "$(git rev-parse topic)" "$(git rev-parse topic)" | git update-ref --stdin; s=$?; git update-ref -d refs/tags/y; exit $s
		update-ref of a sibling's branch|fails|-|git update-ref refs/heads/sib topic
		update-ref of a missing sibling's branch|fails|-|git update-ref refs/heads/gone topic
		update-ref -d of a missing sibling's branch|fails|-|git update-ref -d refs/heads/gone
		update-ref main-worktree/HEAD|fails|-|git update-ref main-worktree/HEAD topic
		update-ref --no-deref main-worktree/HEAD|fails|-|git update-ref --no-deref main-worktree/HEAD topic
		update-ref -d main-worktree/HEAD|fails|git|git update-ref -d --no-deref main-worktree/HEAD
		update-ref worktrees/sib/HEAD|fails|-|git update-ref worktrees/sib/HEAD topic
		symbolic-ref main-worktree/HEAD|fails|-|git symbolic-ref main-worktree/HEAD refs/heads/topic
		symbolic-ref main's branch|fails|-|git symbolic-ref refs/heads/main refs/heads/topic
		symbolic-ref worktrees/sib/HEAD|fails|-|git symbolic-ref worktrees/sib/HEAD refs/heads/topic
		branch -D of main's|fails|git|git branch -q -D main
		branch -D of a sibling's|fails|git|git branch -q -D sib
		branch -f of main's|fails|git|git branch -q -f main topic
		branch -f of a sibling's|fails|git|git branch -q -f sib topic
		branch -m of main's|fails|-|git branch -m main other
		branch -m onto main's|fails|git|git branch -M free main
		branch -m of a sibling's|fails|-|git branch -m sib other
		branch -C onto main's|fails|git|git branch -C free main
		checkout -B of main's|fails|-|git checkout -q --ignore-other-worktrees -B main topic; s=$?; git checkout -q wt; exit $s
		a name below main's branch|fails|git|git branch main/x
		a name below a sibling's|fails|git|git update-ref refs/heads/sib/x HEAD
		fetch into main's branch|fails|-|git fetch -q --update-head-ok . +topic:main
		fetch into a sibling's|fails|-|git fetch -q --update-head-ok . +topic:sib
		push into main's branch|fails|-|git push -q --receive-pack='git -c receive.denyCurrentBranch=ignore receive-pack' . +topic:main
		push into a sibling's|fails|-|git push -q --receive-pack='git -c receive.denyCurrentBranch=ignore receive-pack' . +topic:sib
		commit on main's branch|fails|-|git symbolic-ref HEAD refs/heads/main; git commit -q --allow-empty -m x; s=$?; git symbolic-ref HEAD refs/heads/wt; git read-tree HEAD; exit $s
		reflog delete of main's|fails|-|git reflog delete main@{0}
		reflog delete of HEAD of main|fails|-|git reflog delete main-worktree/HEAD@{0}
		reflog expire of main's|fails|-|git reflog expire --expire=now main
		reflog expire of all|packs|-|git reflog expire --expire=now --all
	END
}

# The same by hand; $o is another commit.
by_hand() {
	local file
	for file in HEAD refs/heads/main worktrees/sib/HEAD; do
		# shellcheck disable=SC2016 # expanded there
		sed "s,FILE,$file,g" <<-'END'
			write FILE|EROFS|-|git rev-parse topic >"$G/FILE"
			append to FILE|EROFS|-|echo x >>"$G/FILE"
			write FILE in place|EROFS|-|dd if=/dev/zero of="$G/FILE" bs=1 count=1 conv=notrunc
			truncate FILE|EROFS|-|truncate -s 0 "$G/FILE"
			remove FILE|EROFS|-|rm -f "$G/FILE"
			move FILE away|EROFS|-|mv "$G/FILE" "$G/held"
			move another over FILE|EROFS|-|git rev-parse topic >"$G/held"; mv "$G/held" "$G/FILE"; s=$?; rm -f "$G/held"; exit $s
			rename a lock over FILE|EROFS|-|git rev-parse topic >"$G/FILE.lock"; mv "$G/FILE.lock" "$G/FILE"; s=$?; rm -f "$G/FILE.lock"; exit $s
			exchange FILE|EROFS|-|git rev-parse topic >"$G/held"; "$SYSOP" rename "$G/held" "$G/FILE" exchange; s=$?; rm -f "$G/held"; exit $s
			exchange FILE from its side|EROFS|-|git rev-parse topic >"$G/held"; "$SYSOP" rename "$G/FILE" "$G/held" exchange; s=$?; rm -f "$G/held"; exit $s
			ln -f onto FILE|EROFS|-|git rev-parse topic >"$G/held"; ln -f "$G/held" "$G/FILE"; s=$?; rm -f "$G/held"; exit $s
			ln -sf onto FILE|EROFS|-|ln -sf refs/heads/topic "$G/FILE"
			link to FILE, written|EROFS|-|ln "$G/FILE" "$G/held"; s=$?; echo x >>"$G/held"; rm -f "$G/held"; exit $s
			chmod of FILE|EROFS|-|chmod 0 "$G/FILE"
			mmap of FILE|EROFS|-|"$SYSOP" mmap_write "$G/FILE"
			fallocate of FILE|EROFS|-|"$SYSOP" fallocate "$G/FILE"
		END
	done
	cat <<-'END'
		write index|EROFS|-|cp "$A/index" "$G/index"
		rename over index|EROFS|-|cp "$A/index" "$G/held"; mv "$G/held" "$G/index"; s=$?; rm -f "$G/held"; exit $s
		exchange index|EROFS|-|cp "$A/index" "$G/held"; "$SYSOP" rename "$G/held" "$G/index" exchange; s=$?; rm -f "$G/held"; exit $s
		remove index|EROFS|-|rm -f "$G/index"
		a lock of index|EROFS|-|: >"$G/index.lock"
		rename refs|fails|-|"$SYSOP" rename "$G/refs" "$G/held"
		rename refs/heads|fails|-|"$SYSOP" rename "$G/refs/heads" "$G/refs/held"
		remove branches in use|EROFS|-|rm -rf "$G"/refs/heads/{main,sib,gone}
		remove reflogs in use|EROFS|-|rm -rf "$G"/logs/{HEAD,refs/heads/{main,sib,gone}}
		rename logs|fails|-|"$SYSOP" rename "$G/logs" "$G/held"
		rename logs/refs/heads|fails|-|"$SYSOP" rename "$G/logs/refs/heads" "$G/logs/refs/held"
		remove main's reflog|EROFS|-|rm -f "$G/logs/refs/heads/main"
		remove HEAD's reflog|EROFS|-|rm -f "$G/logs/HEAD"
		remove a sibling's reflog|EROFS|-|rm -f "$G/worktrees/sib/logs/HEAD"
		truncate main's reflog|EROFS|-|: >"$G/logs/refs/heads/main"
		append to main's reflog|EROFS|-|head -1 "$G/logs/HEAD" >>"$G/logs/refs/heads/main"
		append to HEAD's reflog|EROFS|-|head -1 "$G/logs/HEAD" >>"$G/logs/HEAD"
		rewrite main's reflog|EROFS|-|head -1 "$G/logs/HEAD" >"$G/logs/refs/heads/main.lock"; mv "$G/logs/refs/heads/main.lock" "$G/logs/refs/heads/main"; s=$?; rm -f "$G/logs/refs/heads/main.lock"; exit $s
		rewrite HEAD's reflog|EROFS|-|head -1 "$G/logs/HEAD" >"$G/logs/HEAD.lock"; mv "$G/logs/HEAD.lock" "$G/logs/HEAD"; s=$?; rm -f "$G/logs/HEAD.lock"; exit $s
		rewrite a sibling's reflog|EROFS|-|: >"$G/worktrees/sib/logs/HEAD.lock"; mv "$G/worktrees/sib/logs/HEAD.lock" "$G/worktrees/sib/logs/HEAD"; s=$?; rm -f "$G/worktrees/sib/logs/HEAD.lock"; exit $s
	END
}

# packed-refs, where main's branch is packed alone: see packed_refs().
packed() {
	cat <<-'END'
		remove packed-refs|EROFS|-|rm -f "$G/packed-refs"
		truncate packed-refs|EROFS|-|: >"$G/packed-refs"
		append to packed-refs|EROFS|-|echo "$(git rev-parse topic) refs/heads/zzz" >>"$G/packed-refs"
		move packed-refs away|EROFS|-|mv "$G/packed-refs" "$G/held"
		a symlink as packed-refs|EROFS|-|ln -sf /dev/null "$G/packed-refs"
		exchange packed-refs|EROFS|-|cp "$G/packed-refs" "$G/held"; sed -i /zzz/d "$G/held"; echo '# x' >>"$G/held"; "$SYSOP" rename "$G/held" "$G/packed-refs" exchange; s=$?; rm -f "$G/held"; exit $s
		main's value changed|EROFS|-|sed "s,.* refs/heads/main$,$(git rev-parse topic) refs/heads/main," "$G/packed-refs" >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		main's value gone|EROFS|-|sed '/refs\/heads\/main$/d' "$G/packed-refs" >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		a sibling's value changed|EROFS|-|sed "s,.* refs/heads/sib$,$(git rev-parse topic) refs/heads/sib," "$G/packed-refs" >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		a name below main's|EROFS|-|awk -v o="$(git rev-parse topic)" '{ print } / refs\/heads\/main$/ { print o " refs/heads/main/x" }' "$G/packed-refs" >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		a replacement|EROFS|-|(grep -v refs/tags "$G/packed-refs"; echo "$(git rev-parse topic) refs/replace/$(git rev-parse main)"; grep -A1 refs/tags "$G/packed-refs") >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		no file at all|EROFS|-|echo nonsense >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		an empty file|EROFS|-|: >"$G/held"; mv "$G/held" "$G/packed-refs"; s=$?; rm -f "$G/held"; exit $s
		update-ref of main's branch|fails|-|git update-ref refs/heads/main topic
		update-ref -d of main's branch|fails|-|git update-ref -d refs/heads/main
		a loose ref over the packed one|EROFS|-|git rev-parse topic >"$G/refs/heads/main"
		a directory over the packed one|EROFS|-|mkdir -p "$G/refs/heads/main" && git rev-parse topic >"$G/refs/heads/main/x"
		pack-refs of a tampered one|any|-|echo "$(git rev-parse topic) refs/heads/main" >"$G/refs/heads/main.lock"; mv "$G/refs/heads/main.lock" "$G/refs/heads/main"; rm -f "$G/refs/heads/main.lock"; git pack-refs --all
	END
}

# Objects, stash entries and reflogs that the user would miss.
losses() {
	cat <<-'END'
		rm -rf objects|EROFS|head_lost|rm -rf "$G"/objects/*
		rm -rf of packs|EROFS|head_lost|git repack -q -a -d; rm -rf "$G"/objects/*
		move objects away|EROFS|head_lost|mv "$G/objects" "$G/held"
		move directories of objects|EROFS|object_lost|mkdir "$G/held"; mv "$G"/objects/?? "$G/held/"; s=$?; rm -rf "$G/held"; exit $s
		move objects into others' place|fails|object_lost|for f in "$G"/objects/??/*; do mv "$f" "$G/objects/tmp_obj_x" && rm -f "$G/objects/tmp_obj_x"; done; test -z "$(find "$G"/objects/?? -type f)"
		truncate objects|EROFS|object_lost|chmod u+w "$G"/objects/??/*; for f in "$G"/objects/??/*; do : >"$f"; done
		write objects in place|EROFS|object_lost|chmod u+w "$G"/objects/??/*; for f in "$G"/objects/??/*; do echo x | dd of="$f" conv=notrunc bs=1; done
		rename over objects|EROFS|object_lost|for f in "$G"/objects/??/*; do echo x >"$G/objects/tmp_obj_x"; mv -f "$G/objects/tmp_obj_x" "$f" || s=1; done; rm -f "$G/objects/tmp_obj_x"; exit $s
		exchange objects|EROFS|object_lost|for f in "$G"/objects/??/*; do echo x >"$G/objects/tmp_obj_x"; "$SYSOP" rename "$G/objects/tmp_obj_x" "$f" exchange || s=1; done; rm -f "$G/objects/tmp_obj_x"; exit $s
		write objects through other names|any|object_lost|for f in "$G"/objects/??/*; do for n in "$f.x" "$G/objects/info/x" "$G/objects/pack/x" "$G/held"; do ln "$f" "$n" && chmod u+w "$n" && echo x >"$n"; rm -f "$n"; done; done
		take objects' read bits|EROFS|test "$(stat -c %a "$G/objects/"*/"$(cut -c3- "$BASE/dangling")")" = 0|chmod 0 "$G"/objects/??/*
		a file for a directory of objects|EROFS|objects_unlisted|x=$G/objects/$(comm -23 <(printf '%02x\n' {0..255}) <(ls "$G/objects") | head -n 1); echo x >"$x"
		the same by a rename|EROFS|objects_unlisted|x=$G/objects/$(comm -23 <(printf '%02x\n' {0..255}) <(ls "$G/objects") | head -n 1); echo x >"$G/objects/tmp_obj_x"; mv "$G/objects/tmp_obj_x" "$x"; s=$?; rm -f "$G/objects/tmp_obj_x"; exit $s
		the same by an exchange|EROFS|objects_unlisted|x=$G/objects/$(comm -23 <(printf '%02x\n' {0..255}) <(ls "$G/objects") | head -n 1); echo x >"$G/objects/tmp_obj_x"; mkdir "$x"; "$SYSOP" rename "$x" "$G/objects/tmp_obj_x" exchange; s=$?; rmdir "$x"; rm -f "$G/objects/tmp_obj_x"; exit $s
		the same by a link|EROFS|objects_unlisted|x=$G/objects/$(comm -23 <(printf '%02x\n' {0..255}) <(ls "$G/objects") | head -n 1); echo x >"$G/objects/tmp_obj_x"; ln "$G/objects/tmp_obj_x" "$x"; s=$?; rm -f "$G/objects/tmp_obj_x"; exit $s
		a file for the directory of packs|EROFS|! git -C "$M" repack -a|rmdir "$G/objects/pack"; echo x >"$G/objects/pack"; s=$?; [ $s = 0 ] || mkdir -p "$G/objects/pack"; exit $s
		a directory for an object|EROFS|object_to_come_lost|o=$(echo "to come" | git hash-object --stdin); mkdir -p "$G/objects/${o:0:2}"; mkdir "$G/objects/${o:0:2}/${o:2}"
		git prune|any|object_lost|git prune --expire=now
		git repack -a -d|packs|object_lost|git repack -q -a -d; git prune --expire=now
		reflog expire, gc --prune=now|packs|! git rev-parse -q --verify 'HEAD@{3}'|git reflog expire --expire=now --expire-unreachable=now --all; git gc -q --prune=now
		git gc --prune=now|packs|object_lost|git gc -q --prune=now
		git stash clear|fails|stash_lost|git stash clear
		git stash drop|fails|stash_lost|git stash drop -q
		git stash drop of the older|fails|stash_lost|git stash drop -q 'stash@{1}'
		git stash pop|fails|stash_lost|git stash pop -q; s=$?; git checkout -q -f HEAD; exit $s
		git reflog delete of the stash|fails|stash_lost|git reflog delete --updateref --rewrite 'stash@{0}'
		git reflog expire of the stash|any|stash_lost|git reflog expire --expire=now refs/stash
		update-ref -d refs/stash|fails|stash_lost|git update-ref -d refs/stash
		rm refs/stash|EROFS|stash_lost|rm "$G/refs/stash"
		rm logs/refs/stash|EROFS|stash_lost|rm "$G/logs/refs/stash"
		truncate logs/refs/stash|EROFS|stash_lost|: >"$G/logs/refs/stash"
		write into logs/refs/stash|EROFS|stash_lost|dd if=/dev/zero of="$G/logs/refs/stash" bs=1 count=200 conv=notrunc
		rewrite logs/refs/stash|EROFS|stash_lost|tail -1 "$G/logs/refs/stash" >"$G/logs/refs/stash.lock"; mv "$G/logs/refs/stash.lock" "$G/logs/refs/stash"; s=$?; rm -f "$G/logs/refs/stash.lock"; exit $s
		exchange logs/refs/stash|EROFS|stash_lost|tail -1 "$G/logs/refs/stash" >"$G/held"; "$SYSOP" rename "$G/held" "$G/logs/refs/stash" exchange; s=$?; rm -f "$G/held"; exit $s
		mv of logs/refs/stash|EROFS|stash_lost|mv "$G/logs/refs/stash" "$G/held"
		fetch --depth|any|history_lost|git fetch -q --depth=1 "file://$BASE/remote.git" main
		shallow by hand|EROFS|history_lost|git rev-parse main >"$G/shallow"
		shallow.lock|EROFS|history_lost|git rev-parse main >"$G/shallow.lock" && mv "$G/shallow.lock" "$G/shallow"
		remove a shared index|EROFS|! git status|rm -f "$G"/sharedindex.*
		move a shared index away|EROFS|! git status|mv "$G"/sharedindex.* "$G/held"
		truncate a shared index|EROFS|! git status|for f in "$G"/sharedindex.*; do chmod u+w "$f"; : >"$f"; done
		git replace|fails|replaced|git replace -f main topic
		a replacement by hand|EROFS|replaced|mkdir -p "$G/refs/replace" && git rev-parse topic >"$G/refs/replace/$(git rev-parse main)"
		refs/replace moved into place|fails|replaced|mkdir -p "$G/refs/x" && git rev-parse topic >"$G/refs/x/$(git rev-parse main)"; mv "$G/refs/x" "$G/refs/replace"; s=$?; rm -rf "$G/refs/x"; exit $s
		grafts|EROFS|history_lost|git rev-parse main >"$G/info/grafts"
		alternates|EROFS|-|echo "$E/evil.git/objects" >"$G/objects/info/alternates"
		alternates by a rename|EROFS|-|echo "$E/evil.git/objects" >"$G/objects/info/x"; mv "$G/objects/info/x" "$G/objects/info/alternates"; s=$?; rm -f "$G/objects/info/x"; exit $s
		alternates by a link|EROFS|-|echo "$E/evil.git/objects" >"$G/objects/info/x"; ln "$G/objects/info/x" "$G/objects/info/alternates"; s=$?; rm -f "$G/objects/info/x"; exit $s
		alternates by a symlink|EROFS|-|ln -s "$E/x" "$G/objects/info/alternates"
	END
}

# Other worktrees' admin directories.
siblings() {
	cat <<-'END'
		git worktree prune|any|-|git worktree prune --expire=now
		git worktree prune of missing ones|any|-|git worktree prune
		git worktree remove|fails|-|git worktree remove "$S"
		git worktree remove --force|fails|-|git worktree remove --force "$S"
		git worktree move|fails|-|git worktree move "$S" "$BASE/moved"
		git worktree lock|fails|-|git worktree lock "$S"
		git worktree lock of a missing one|fails|-|git worktree lock "$BASE/gone"
		git worktree repair|any|-|mkdir "$E/tree" && echo "gitdir: $G/worktrees/sib" >"$E/tree/.git"; git worktree repair "$E/tree"; s=$?; rm -r "$E/tree"; exit $s
		git gc prunes worktrees|packs|test ! -e "$G/worktrees/gone"|git -c gc.worktreePruneExpire=now gc -q
		git worktree add -f onto a missing one's place|any|test ! -e "$G/worktrees/gone"|git worktree add -q -f --detach "$BASE/gone"; git worktree remove --force "$BASE/gone"
		rm -rf of an admin directory|EROFS|-|rm -rf "$G/worktrees/sib"
		rm -rf of a missing one's|EROFS|-|rm -rf "$G/worktrees/gone"
		rm -rf of worktrees|EROFS|-|mkdir -p "$E/x"; cp -a "$A" "$E/x/"; rm -rf "$G/worktrees/sib" "$G/worktrees/gone"
		mv of an admin directory|EROFS|-|mv "$G/worktrees/sib" "$G/worktrees/other"
		mv of another's onto its place|fails|git|mkdir "$G/worktrees/x"; mv -T "$G/worktrees/x" "$G/worktrees/gone"; s=$?; rmdir "$G/worktrees/x"; exit $s
		exchange of two admin directories|EROFS|-|"$SYSOP" rename "$A" "$G/worktrees/sib" exchange
		mv of worktrees|EROFS|-|mv "$G/worktrees" "$G/held"
		its gitdir|EROFS|-|echo "$E/tree/.git" >"$G/worktrees/sib/gitdir"
		its commondir|EROFS|-|echo "$E/common" >"$G/worktrees/sib/commondir"
		its config.worktree|EROFS|-|cp "$E/config" "$G/worktrees/sib/config.worktree"
		its index|EROFS|-|cp "$A/index" "$G/worktrees/sib/index"
		its ORIG_HEAD|EROFS|-|git rev-parse topic >"$G/worktrees/sib/ORIG_HEAD"
		a rebase of its|EROFS|-|mkdir "$G/worktrees/sib/rebase-merge"
		a merge of its|EROFS|-|git rev-parse topic >"$G/worktrees/sib/MERGE_HEAD"
		its locked|EROFS|-|: >"$G/worktrees/sib/locked"
		a ref of its|EROFS|-|mkdir -p "$G/worktrees/sib/refs/bisect" && git rev-parse topic >"$G/worktrees/sib/refs/bisect/bad"
		a submodule of its|EROFS|-|mkdir -p "$G/worktrees/sib/modules/x"
		its .git|EROFS|test "$(cat "$S/.git")" = x|echo x >"$S/.git"
		the own gitdir|EROFS|test "$(cat "$A/gitdir")" = x|echo x >"$A/gitdir"
		the own commondir|EROFS|test "$(cat "$A/commondir")" = x|echo x >"$A/commondir"
		the own pointer|EROFS|test "$(cat "$W/.git")" = x|echo x >"$W/.git"
	END
}

# Written on after the verdict; all of these may be replaced by themselves.
after_the_verdict() {
	local file
	for file in config HEAD refs/heads/main refs/heads/sib packed-refs \
		logs/HEAD logs/refs/heads/main logs/refs/stash \
		worktrees/sib/HEAD worktrees/sib/logs/HEAD; do
		# shellcheck disable=SC2016 # expanded there
		sed "s,FILE,$file,g" <<-'END'
			FILE through a descriptor|any|-|cp "$G/FILE" "$G/FILE.lock" && exec 3>>"$G/FILE.lock" && mv "$G/FILE.lock" "$G/FILE" && echo x >&3
			FILE through a mapping|any|-|cp "$G/FILE" "$G/FILE.lock" && python3 -c 'import mmap, os, sys; p = sys.argv[1]; f = open(p + ".lock", "r+b"); m = mmap.mmap(f.fileno(), 0); os.rename(p + ".lock", p); m[0] = m[0] ^ 1; m.flush()' "$G/FILE"
			FILE through a hard link|any|-|cp "$G/FILE" "$G/FILE.lock" && ln "$G/FILE.lock" "$G/held"; mv "$G/FILE.lock" "$G/FILE"; echo x >>"$G/held"; rm -f "$G/held" "$G/FILE.lock"
			FILE through a symlink|EROFS|-|cp "$G/FILE" "$E/held"; ln -s "$E/held" "$G/FILE.lock"; mv -T "$G/FILE.lock" "$G/FILE"; s=$?; echo x >>"$E/held"; rm -f "$E/held" "$G/FILE.lock"; exit $s
			FILE that is a pipe|EROFS|-|mkfifo "$G/FILE.lock"; mv -T "$G/FILE.lock" "$G/FILE"; s=$?; rm -f "$G/FILE.lock"; exit $s
			FILE that is a directory|fails|git|mkdir "$G/FILE.lock"; mv -T "$G/FILE.lock" "$G/FILE"; s=$?; rmdir "$G/FILE.lock"; exit $s
		END
	done
}

# What git follows when the user works: he would write into main himself.
links() {
	cat <<-'END'
		FETCH_HEAD|EROFS|git fetch -q; read_me_lost|ln -sfn "$M/README.md" "$G/FETCH_HEAD"
		FETCH_HEAD, moved there|EROFS|git fetch -q; read_me_lost|ln -s "$M/README.md" "$G/held"; mv -T "$G/held" "$G/FETCH_HEAD"; s=$?; rm -f "$G/held"; exit $s
		FETCH_HEAD, from outside|EROFS|git fetch -q; read_me_lost|ln -s "$M/README.md" "$E/held"; mv -T "$E/held" "$G/FETCH_HEAD"; s=$?; rm -f "$E/held"; exit $s
		FETCH_HEAD, a pipe|EROFS|! timeout 3 git -C "$M" fetch -q|rm -f "$G/FETCH_HEAD"; mkfifo "$G/FETCH_HEAD"
		COMMIT_EDITMSG|EROFS|git commit -q --allow-empty -m x; read_me_lost|ln -sfn "$M/README.md" "$G/COMMIT_EDITMSG"
		SQUASH_MSG|EROFS|git merge -q --squash topic; read_me_lost|ln -sfn "$M/README.md" "$G/SQUASH_MSG"
		a directory of refs|EROFS|git push -q origin topic:main; test "$(git rev-parse main)" = "$(git rev-parse topic)"|rm -r "$G/refs/remotes/origin"; ln -s ../heads "$G/refs/remotes/origin"
		a directory of tags|EROFS|git tag x; git rev-parse -q --verify refs/heads/x|mv "$G/refs/tags" "$G/held"; ln -s heads "$G/refs/tags"; s=$?; [ $s = 0 ] || mv -T "$G/held" "$G/refs/tags"; exit $s
		a reflog|EROFS|git push -q origin topic:main; read_me_lost|rm -f "$G/logs/refs/remotes/origin/main"; ln -s "$M/README.md" "$G/logs/refs/remotes/origin/main"
		a directory of reflogs|EROFS|git push -q origin topic:main; ! diff "$G/logs/refs/heads/main" "$BASE.saved/main/.git/logs/refs/heads/main"|rm -r "$G/logs/refs/remotes/origin"; ln -s ../heads "$G/logs/refs/remotes/origin"
		the worktree's FETCH_HEAD|EROFS|command git -C "$W" fetch -q; read_me_lost|ln -sfn "$M/README.md" "$A/FETCH_HEAD"
		the worktree's COMMIT_EDITMSG|EROFS|command git -C "$W" commit -q --allow-empty -m x; read_me_lost|ln -sfn "$M/README.md" "$A/COMMIT_EDITMSG"
		the worktree's reflog|EROFS|command git -C "$W" commit -q --allow-empty -m x; read_me_lost|cp "$A/logs/HEAD" "$E/l"; ln -sfn "$M/README.md" "$A/logs/HEAD"; s=$?; [ -e "$A/logs/HEAD" ] || cp "$E/l" "$A/logs/HEAD"; exit $s
		the worktree's index|EROFS|command git -C "$W" add work; test -e "$M/new"|mv "$A/index" "$A/i"; ln -s "$M/new" "$A/index"; s=$?; [ $s = 0 ] || mv -T "$A/i" "$A/index"; exit $s
		the git directory, closed|EROFS|test "$(stat -c %a "$G")" = 0|chmod 0 "$G"
	END
}

everywhere() {
	printf '%s\n' moves by_hand losses siblings after_the_verdict links
}

# What the session may leave: reflogs of its own, tags.
objects_are_there() {
	t_is "$g_label: no object is lost" \
		"$(comm -23 "$BASE.objects" <(g_objects))" ""
	t_is "$g_label: nor an entry of a reflog" "$(reflogs)" \
		"$(cat "$BASE.reflogs")"
	t_ok "$g_label: git fsck" s_as git -C "$M" fsck --no-progress \
		--no-dangling
}

reflogs() {
	s_as git -C "$M" reflog show HEAD
	s_as git -C "$M" reflog show main
	s_as git -C "$M" stash list
	s_as git -C "$S" reflog show HEAD
}

make_repository() {
	g_repository || exit 1
	s_as git -C "$M" update-index --split-index
}

# Here all refs are packed, and some loose again.
packed_refs() {
	s_as git -C "$M" pack-refs --all
	s_as git -C "$M" tag -a -m "an annotated one" v2
	s_as git -C "$M" pack-refs --all
	g_save
	"$@"
}

check() {
	local table
	make_repository
	g_save
	g_objects >"$BASE.objects"
	reflogs >"$BASE.reflogs"
	"$@"
	for table in $(everywhere); do
		g_guarded_table "$table"
	done
	objects_are_there
	g_stop
	g_goes_on ""
	g_restore
	packed_refs "$@"
	g_guarded_table packed
	g_stop
	g_goes_on ""
	s_clear "nothing is left"
}

control() {
	local table
	g_be root control
	make_repository
	for table in $(everywhere); do
		g_control_table "$table"
	done
	packed_refs g_control_table packed
}

# In a view elsewhere, main's and the worktree's paths lead into it. Those of
# others are what they are.
# shellcheck disable=SC2016 # as it stands in the tables
in_the_view() {
	moves | grep -v '"\$S"'
	by_hand
}

check_view() {
	g_be user view
	g_label="user, in a view"
	make_repository
	g_save
	g_view --symlinks view
	g_guarded_table in_the_view
	g_stop
	g_goes_on ""
	s_clear "nothing is left of the view"
}

control
check_view
for somebody in $(s_everybody); do
	g_be "$somebody"
	check g_run
done
t_done
