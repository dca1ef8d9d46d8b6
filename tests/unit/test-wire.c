/*
 * Messages with descriptors, over real sockets.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/lib/cleanup.h"
#include "fs/lib/wire.h"

TestSuite(wire, .timeout = 30);

struct pair {
	int ours, theirs;
};

static void pair_close(struct pair *pair)
{
	cleanup_fdp(&pair->ours);
	cleanup_fdp(&pair->theirs);
}
#define autopair __attribute__((cleanup(pair_close)))

static struct pair make_pair(void)
{
	int fds[2];

	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
		     0);
	return (struct pair){fds[0], fds[1]};
}

static void hang_up(int *fd)
{
	close(*fd);
	*fd = -1;
}

static size_t count_fds(void)
{
	autodir DIR *dir = opendir("/proc/self/fd");
	size_t n = 0;

	cr_assert_not_null(dir);
	while (readdir(dir))
		n++;
	return n;
}

/* Descriptors of n pipes' ends, each another file. */
static void open_fds(int *fds, size_t n)
{
	for (size_t i = 0; i < n; i += 2) {
		int ends[2];

		cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
		fds[i] = ends[0];
		if (i + 1 < n)
			fds[i + 1] = ends[1];
		else
			close(ends[1]);
	}
}

static void close_fds(const int *fds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(fds[i]);
}

static void expect_same_file(int a, int b)
{
	struct stat sa, sb;

	cr_assert_eq(fstat(a, &sa), 0);
	cr_assert_eq(fstat(b, &sb), 0);
	cr_expect_eq(sa.st_ino, sb.st_ino);
	cr_expect_eq(sa.st_dev, sb.st_dev);
}

/* A header as it is on the wire, whatever it says. */
struct raw_header {
	uint32_t length, n_fds;
};

/* Sends bytes with descriptors beside them, as a foreign peer might. */
static void send_raw(int sock, const void *data, size_t size, const int *fds,
		     size_t n_fds)
{
	/* iov_base isn't const, though sendmsg(2) only reads. */
	union {
		const void *in;
		void *out;
	} base = {.in = data};
	struct iovec iov = {.iov_base = base.out, .iov_len = size};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t room = CMSG_SPACE(n_fds * sizeof(int));
	autofree char *control = calloc(1, room);

	if (n_fds > 0) {
		struct cmsghdr *cmsg;

		message.msg_control = control;
		message.msg_controllen = room;
		cmsg = CMSG_FIRSTHDR(&message);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, n_fds * sizeof(int));
	}
	cr_assert_eq(sendmsg(sock, &message, MSG_NOSIGNAL), (ssize_t)size);
}

/* Receives what must fail, and must leave the results alone. */
static int receive_nothing(int sock, int *fds, size_t room)
{
	char untouched[] = "untouched", *text = untouched;
	size_t n = 12345;
	int r = wire_receive(sock, &text, fds, room, &n);

	cr_assert_lt(r, 0);
	cr_expect_eq(text, untouched);
	cr_expect_eq(n, 12345);
	return r;
}

static void expect_round_trip(struct pair pair, const char *sent,
			      const int *fds, size_t n_fds)
{
	autofree char *text = NULL;
	int got[WIRE_MAX_FDS];
	size_t n = 0;

	cr_assert_eq(wire_send(pair.ours, sent, fds, n_fds), 0);
	cr_assert_eq(wire_receive(pair.theirs, &text, got, WIRE_MAX_FDS, &n),
		     0);
	cr_expect_str_eq(text, sent);
	cr_assert_eq(n, n_fds);
	for (size_t i = 0; i < n; i++) {
		expect_same_file(got[i], fds[i]);
		cr_expect(fcntl(got[i], F_GETFD) & FD_CLOEXEC);
	}
	close_fds(got, n);
}

Test(wire, round_trip)
{
	static const size_t numbers[] = {0, 1, 2, 3, WIRE_MAX_FDS};
	autopair struct pair pair = make_pair();
	int fds[WIRE_MAX_FDS];
	size_t before = count_fds();

	open_fds(fds, WIRE_MAX_FDS);
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		expect_round_trip(pair, "{\"type\":\"ok\"}", fds, numbers[i]);
		expect_round_trip(pair, "", fds, numbers[i]);
	}
	close_fds(fds, WIRE_MAX_FDS);
	cr_expect_eq(count_fds(), before);
}

/* Each message keeps its own text and descriptors. */
Test(wire, messages_in_a_row)
{
	autopair struct pair pair = make_pair();
	int fds[4], got[4];
	size_t before = count_fds();

	open_fds(fds, 4);
	cr_assert_eq(wire_send(pair.ours, "one", fds, 1), 0);
	cr_assert_eq(wire_send(pair.ours, "two", NULL, 0), 0);
	cr_assert_eq(wire_send(pair.ours, "three", fds + 1, 3), 0);
	for (size_t i = 0; i < 3; i++) {
		static const char *const texts[] = {"one", "two", "three"};
		static const size_t numbers[] = {1, 0, 3};
		autofree char *text = NULL;
		size_t n = 99;

		cr_assert_eq(wire_receive(pair.theirs, &text, got, 4, &n), 0);
		cr_expect_str_eq(text, texts[i]);
		cr_assert_eq(n, numbers[i]);
		if (n > 0)
			expect_same_file(got[0], fds[i == 0 ? 0 : 1]);
		close_fds(got, n);
	}
	close_fds(fds, 4);
	cr_expect_eq(count_fds(), before);
}

static void *receive_large(void *arg)
{
	int *sock = arg;
	char *text = NULL;
	size_t n;

	return wire_receive(*sock, &text, NULL, 0, &n) == 0 ? text : NULL;
}

static char *text_of_length(size_t length)
{
	char *text = malloc(length + 1);

	cr_assert_not_null(text);
	memset(text, 'x', length);
	text[length] = '\0';
	return text;
}

/* Far more than a socket holds: both sides go on where they were. */
Test(wire, the_longest_text)
{
	autopair struct pair pair = make_pair();
	autofree char *sent = text_of_length(WIRE_MAX_TEXT);
	autofree char *got = NULL;
	pthread_t thread;
	void *result;

	cr_assert_eq(pthread_create(&thread, NULL, receive_large, &pair.theirs),
		     0);
	cr_expect_eq(wire_send(pair.ours, sent, NULL, 0), 0);
	cr_assert_eq(pthread_join(thread, &result), 0);
	got = result;
	cr_assert_not_null(got);
	cr_expect(strcmp(got, sent) == 0);
}

/* What can't be a message isn't begun. */
Test(wire, oversize_is_not_sent)
{
	autopair struct pair pair = make_pair();
	autofree char *text = text_of_length((size_t)WIRE_MAX_TEXT + 1);
	int fds[WIRE_MAX_FDS + 1];
	char byte;

	open_fds(fds, ARRAY_SIZE(fds));
	cr_expect_eq(wire_send(pair.ours, text, NULL, 0), -EMSGSIZE);
	cr_expect_eq(wire_send(pair.ours, "", fds, ARRAY_SIZE(fds)), -EMSGSIZE);
	cr_expect_eq(recv(pair.theirs, &byte, 1, MSG_DONTWAIT), -1);
	cr_expect_eq(errno, EAGAIN);
	close_fds(fds, ARRAY_SIZE(fds));
}

Test(wire, oversize_is_not_received)
{
	static const uint32_t lengths[] = {WIRE_MAX_TEXT + 1, UINT32_MAX};

	for (size_t i = 0; i < ARRAY_SIZE(lengths); i++) {
		autopair struct pair pair = make_pair();
		const struct raw_header header = {lengths[i], 0};

		send_raw(pair.ours, &header, sizeof(header), NULL, 0);
		cr_expect_eq(receive_nothing(pair.theirs, NULL, 0), -EPROTO);
	}
}

/* Descriptors that nobody asked for are closed again. */
Test(wire, too_many_descriptors)
{
	static const struct {
		size_t sent, room;
	} cases[] = {
		{1, 0}, {2, 1}, {5, 4}, {WIRE_MAX_FDS, 0}, {WIRE_MAX_FDS, 63},
	};
	int fds[WIRE_MAX_FDS], got[WIRE_MAX_FDS];
	size_t before = count_fds();

	open_fds(fds, WIRE_MAX_FDS);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autopair struct pair pair = make_pair();

		cr_assert_eq(wire_send(pair.ours, "x", fds, cases[i].sent), 0);
		cr_expect_eq(receive_nothing(pair.theirs, got, cases[i].room),
			     -EPROTO);
	}
	close_fds(fds, WIRE_MAX_FDS);
	cr_expect_eq(count_fds(), before);
}

/* More than any message of ours may have: the kernel drops what has no room. */
Test(wire, more_descriptors_than_there_are)
{
	int fds[200], got[WIRE_MAX_FDS];
	size_t before = count_fds();

	open_fds(fds, ARRAY_SIZE(fds));
	{
		autopair struct pair pair = make_pair();
		const struct raw_header header = {0, ARRAY_SIZE(fds)};

		send_raw(pair.ours, &header, sizeof(header), fds,
			 ARRAY_SIZE(fds));
		cr_expect_eq(receive_nothing(pair.theirs, got, WIRE_MAX_FDS),
			     -EPROTO);
	}
	close_fds(fds, ARRAY_SIZE(fds));
	cr_expect_eq(count_fds(), before);
}

/* The header must tell how many descriptors came with it. */
Test(wire, wrong_number_of_descriptors)
{
	static const struct {
		uint32_t told;
		size_t sent;
	} cases[] = {{0, 1}, {1, 0}, {1, 2}, {3, 2}, {UINT32_MAX, 0}};
	int fds[2], got[WIRE_MAX_FDS];
	size_t before = count_fds();

	open_fds(fds, 2);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		autopair struct pair pair = make_pair();
		const struct raw_header header = {0, cases[i].told};

		send_raw(pair.ours, &header, sizeof(header), fds,
			 cases[i].sent);
		cr_expect_eq(receive_nothing(pair.theirs, got, WIRE_MAX_FDS),
			     -EPROTO);
	}
	close_fds(fds, 2);
	cr_expect_eq(count_fds(), before);
}

/* Descriptors beside the text instead of the header are never ours. */
Test(wire, descriptors_in_the_wrong_place)
{
	int fds[2];
	size_t before = count_fds();

	open_fds(fds, 2);
	{
		autopair struct pair pair = make_pair();
		const struct raw_header header = {2, 0};
		autofree char *text = NULL;
		size_t n = 99;

		send_raw(pair.ours, &header, sizeof(header), NULL, 0);
		send_raw(pair.ours, "ok", 2, fds, 2);
		cr_expect_eq(wire_receive(pair.theirs, &text, NULL, 0, &n), 0);
		cr_expect_str_eq(text, "ok");
		cr_expect_eq(n, 0);
	}
	close_fds(fds, 2);
	cr_expect_eq(count_fds(), before);
}

Test(wire, peer_is_gone)
{
	autopair struct pair pair = make_pair();
	int fds[1];

	open_fds(fds, 1);
	hang_up(&pair.theirs);
	/* SIGPIPE would end this test. */
	cr_expect_eq(wire_send(pair.ours, "x", NULL, 0), -EPIPE);
	cr_expect_eq(wire_send(pair.ours, "x", fds, 1), -EPIPE);
	cr_expect_eq(receive_nothing(pair.ours, NULL, 0), -ECONNRESET);
	close_fds(fds, 1);
}

/* Something of ours was never read: the kernel says so itself. */
Test(wire, peer_is_gone_unread)
{
	autopair struct pair pair = make_pair();

	cr_assert_eq(wire_send(pair.ours, "x", NULL, 0), 0);
	hang_up(&pair.theirs);
	cr_expect_eq(receive_nothing(pair.ours, NULL, 0), -ECONNRESET);
}

/* A peer that goes while it is being sent more than the socket holds. */
static void *hang_up_soon(void *arg)
{
	int *sock = arg;
	char some[4096];

	if (recv(*sock, some, sizeof(some), 0) <= 0)
		return arg;
	hang_up(sock);
	return NULL;
}

Test(wire, peer_goes_in_the_middle)
{
	autopair struct pair pair = make_pair();
	autofree char *text = text_of_length(WIRE_MAX_TEXT);
	pthread_t thread;
	void *failed;
	int r;

	cr_assert_eq(pthread_create(&thread, NULL, hang_up_soon, &pair.theirs),
		     0);
	r = wire_send(pair.ours, text, NULL, 0);
	cr_assert_eq(pthread_join(thread, &failed), 0);
	cr_expect_null(failed);
	cr_expect(r == -EPIPE || r == -ECONNRESET, "%d", r);
}

Test(wire, cut_off_header)
{
	const struct raw_header header = {2, 0};

	for (size_t size = 0; size < sizeof(header); size++) {
		autopair struct pair pair = make_pair();
		int r;

		if (size > 0)
			send_raw(pair.ours, &header, size, NULL, 0);
		hang_up(&pair.ours);
		r = receive_nothing(pair.theirs, NULL, 0);
		cr_expect_eq(r, size ? -EPROTO : -ECONNRESET, "%zu bytes: %d",
			     size, r);
	}
}

/* With descriptors beside the piece of a header that came. */
Test(wire, cut_off_header_with_descriptors)
{
	const struct raw_header header = {2, 2};
	int fds[2], got[2];
	size_t before = count_fds();

	open_fds(fds, 2);
	{
		autopair struct pair pair = make_pair();

		send_raw(pair.ours, &header, 3, fds, 2);
		hang_up(&pair.ours);
		cr_expect_eq(receive_nothing(pair.theirs, got, 2), -EPROTO);
	}
	close_fds(fds, 2);
	cr_expect_eq(count_fds(), before);
}

/* The descriptors of a message whose text never comes are closed. */
Test(wire, cut_off_text)
{
	int fds[2], got[2];
	size_t before = count_fds();

	open_fds(fds, 2);
	for (size_t size = 0; size < 3; size++) {
		autopair struct pair pair = make_pair();
		const struct raw_header header = {3, 2};

		send_raw(pair.ours, &header, sizeof(header), fds, 2);
		if (size > 0)
			send_raw(pair.ours, "abc", size, NULL, 0);
		hang_up(&pair.ours);
		cr_expect_eq(receive_nothing(pair.theirs, got, 2), -ECONNRESET);
	}
	close_fds(fds, 2);
	cr_expect_eq(count_fds(), before);
}

/* The header may come byte by byte. */
Test(wire, header_in_pieces)
{
	autopair struct pair pair = make_pair();
	const struct raw_header header = {2, 0};
	autofree char *text = NULL;
	size_t n;

	for (size_t i = 0; i < sizeof(header); i++)
		send_raw(pair.ours, (const char *)&header + i, 1, NULL, 0);
	send_raw(pair.ours, "ok", 2, NULL, 0);
	cr_expect_eq(wire_receive(pair.theirs, &text, NULL, 0, &n), 0);
	cr_expect_str_eq(text, "ok");
}
