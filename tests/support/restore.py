"""restore.py SAVED TREE ASK ANSWER: makes TREE what `cp -a` once copied to SAVED,
whenever something is written to the pipe ASK, and says so in the pipe ANSWER.

Only what differs in type, mode, owner, size, time or target is touched, so that
what is unchanged keeps its inode, and git its index.
"""
import os
import shutil
import stat
import sys


def attributes(path):
    try:
        st = os.lstat(path)
    except FileNotFoundError:
        return None
    about = [st.st_mode, st.st_uid, st.st_gid]
    if stat.S_ISLNK(st.st_mode):
        about += [os.readlink(path)]
    elif not stat.S_ISDIR(st.st_mode):
        about += [st.st_size, st.st_mtime_ns]
    return about


def remove(path):
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def copy_attributes(saved, path):
    st = os.lstat(saved)
    os.chown(path, st.st_uid, st.st_gid, follow_symlinks=False)
    if not stat.S_ISLNK(st.st_mode):
        shutil.copystat(saved, path)


def restore(saved, path):
    is_dir = os.path.isdir(saved) and not os.path.islink(saved)
    if attributes(saved) != attributes(path):
        if os.path.lexists(path) and not (
            is_dir and os.path.isdir(path) and not os.path.islink(path)
        ):
            remove(path)
        if os.path.islink(saved):
            os.symlink(os.readlink(saved), path)
        elif is_dir:
            os.makedirs(path, exist_ok=True)
        else:
            shutil.copyfile(saved, path)
        copy_attributes(saved, path)
    if is_dir:
        names = set(os.listdir(saved))
        for name in set(os.listdir(path)) - names:
            remove(os.path.join(path, name))
        for name in names:
            restore(os.path.join(saved, name), os.path.join(path, name))


while True:
    with open(sys.argv[3]) as ask:
        ask.readline()
    try:
        restore(sys.argv[1], sys.argv[2])
        said = "restored"
    except OSError as error:
        said = str(error)
    with open(sys.argv[4], "w") as answer:
        print(said, file=answer)
