
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The floor of some of the benchmark's tables: a loop around epoll_wait() that
 * writes answers which are ready, head and body in one piece, from memory.
 *
 *     epoll_loop PORT ANSWERS [kept|sendfile]
 *
 * ANSWERS is a file of a line of decimal lengths, and then the answers of
 * these lengths without anything between them.  With one answer nothing is
 * parsed: only the end of the request's head is looked for.  With more, the
 * eight digits after "GET /file/" are the answer's number, made as dataset.py
 * does.  With "kept" there are two: one for the first request of a connection,
 * one for those that follow, so that a server that asks this one can log
 * whether it kept the connection.  With "sendfile" answers are not read into
 * memory but sent from their file by sendfile().  GET without a body over
 * keep-alive connections, which is what a benchmark sends; anything else closes
 * the connection.
 */


#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>


#define EVENTS       512
#define REQUEST      4096
#define CONNECTIONS  1024

#define PREFIX       "GET /file/"
#define DIGITS       8
#define FIRST_ID     10000000
#define ID_SPAN      10000000


typedef struct {
    off_t    offset;
    size_t   len;
} answer_t;


typedef struct {
    size_t   used;
    off_t    offset;
    size_t   left;
    size_t   answered;
    char     request[REQUEST];
} conn_t;


static void load(char *name);
static char *contents(size_t size);
static int listener(int port);
static void take(int ep, int fd);
static void readable(int ep, int fd, conn_t *c);
static int answer(int ep, int fd, conn_t *c);
static int flush(int ep, int fd, conn_t *c);
static answer_t *choose(conn_t *c, size_t len);
static void watch(int ep, int op, int fd, uint32_t events);
static void close_conn(int fd);
static void die(const char *what);


static answer_t  *answers;
static size_t     nanswers;
static int        file;
static char      *memory;
static int        kept;
static int        from_file;
static conn_t    *conns[CONNECTIONS];


int
main(int argc, char **argv)
{
    int                 ep, fd, i, n, sock;
    struct epoll_event  events[EVENTS];

    kept = (argc == 4 && strcmp(argv[3], "kept") == 0);
    from_file = (argc == 4 && strcmp(argv[3], "sendfile") == 0);

    if (argc != 3 + kept + from_file) {
        fprintf(stderr, "usage: epoll_loop PORT ANSWERS [kept|sendfile]\n");
        return 2;
    }

    if (signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        die("signal()");
    }

    load(argv[2]);

    if (kept && nanswers != 2) {
        die("two answers are needed");
    }

    sock = listener(atoi(argv[1]));

    ep = epoll_create1(EPOLL_CLOEXEC);
    if (ep == -1) {
        die("epoll_create1()");
    }

    watch(ep, EPOLL_CTL_ADD, sock, EPOLLIN);

    for ( ;; ) {
        n = epoll_wait(ep, events, EVENTS, -1);

        if (n == -1 && errno != EINTR) {
            die("epoll_wait()");
        }

        for (i = 0; i < n; i++) {
            fd = events[i].data.fd;

            if (fd == sock) {
                take(ep, sock);

            } else if (conns[fd]->left == 0) {
                readable(ep, fd, conns[fd]);

            } else if (flush(ep, fd, conns[fd]) == 0) {
                watch(ep, EPOLL_CTL_MOD, fd, EPOLLIN);
                while (answer(ep, fd, conns[fd]) == 0) { /* void */ }
            }
        }
    }
}


static void
load(char *name)
{
    int      c;
    FILE    *stream;
    off_t    end;
    size_t   i, len, room;

    stream = fopen(name, "rb");
    if (stream == NULL) {
        die(name);
    }

    room = 0;

    do {
        if (fscanf(stream, "%zu", &len) != 1) {
            die("lengths");
        }

        if (nanswers == room) {
            room = room ? 2 * room : 16;
            answers = realloc(answers, room * sizeof(answer_t));
            if (answers == NULL) {
                die("realloc()");
            }
        }

        answers[nanswers++].len = len;
        c = getc(stream);

    } while (c == ' ');

    end = ftello(stream);

    for (i = 0; i < nanswers; i++) {
        answers[i].offset = end;
        end += answers[i].len;
    }

    fclose(stream);

    file = open(name, O_RDONLY | O_CLOEXEC);

    if (file == -1 || lseek(file, 0, SEEK_END) != end) {
        die("answers");
    }

    if (!from_file) {
        memory = contents(end);
    }
}


static char *
contents(size_t size)
{
    char     *data;
    size_t    got;
    ssize_t   n;

    data = malloc(size);
    if (data == NULL) {
        die("malloc()");
    }

    for (got = 0; got < size; got += n) {
        n = pread(file, data + got, size - got, got);

        if (n <= 0) {
            die("pread()");
        }
    }

    return data;
}


static int
listener(int port)
{
    int                 one, sock;
    struct sockaddr_in  addr;

    memset(&addr, 0, sizeof(addr));
    addr.sin_family = AF_INET;
    addr.sin_port = htons(port);
    addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);

    one = 1;

    sock = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (sock == -1
        || setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(int)) == -1
        || bind(sock, (struct sockaddr *) &addr, sizeof(addr)) == -1
        || listen(sock, 511) == -1)
    {
        die("listener");
    }

    return sock;
}


static void
take(int ep, int sock)
{
    int  fd, one;

    for ( ;; ) {
        fd = accept4(sock, NULL, NULL, SOCK_NONBLOCK);

        if (fd == -1) {
            if (errno == EAGAIN || errno == ECONNABORTED) {
                return;
            }

            die("accept4()");
        }

        if (fd >= CONNECTIONS) {
            close(fd);
            continue;
        }

        conns[fd] = malloc(sizeof(conn_t));
        if (conns[fd] == NULL) {
            die("malloc()");
        }

        conns[fd]->used = 0;
        conns[fd]->left = 0;
        conns[fd]->answered = 0;

        one = 1;
        if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(int)) == -1) {
            die("setsockopt()");
        }

        watch(ep, EPOLL_CTL_ADD, fd, EPOLLIN);
    }
}


static void
readable(int ep, int fd, conn_t *c)
{
    ssize_t  n;

    n = recv(fd, c->request + c->used, REQUEST - c->used, 0);

    if (n == -1 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }

    if (n <= 0) {
        close_conn(fd);
        return;
    }

    c->used += n;

    while (answer(ep, fd, c) == 0) { /* void */ }
}


/* -1: no whole request, or no room to send, or the connection is closed */

static int
answer(int ep, int fd, conn_t *c)
{
    char      *end;
    size_t     len;
    answer_t  *a;

    end = memmem(c->request, c->used, "\r\n\r\n", 4);

    if (end == NULL) {
        if (c->used == REQUEST) {
            close_conn(fd);
        }

        return -1;
    }

    len = end + 4 - c->request;

    a = choose(c, len);
    if (a == NULL) {
        close_conn(fd);
        return -1;
    }

    c->used -= len;

    if (c->used != 0) {
        memmove(c->request, c->request + len, c->used);
    }

    c->offset = a->offset;
    c->left = a->len;

    if (flush(ep, fd, c) == 0) {
        return 0;
    }

    return -1;
}


/* 0: all of it was sent */

static int
flush(int ep, int fd, conn_t *c)
{
    ssize_t  n;

    if (from_file) {
        n = sendfile(fd, file, &c->offset, c->left);

    } else {
        n = send(fd, memory + c->offset, c->left, 0);
        c->offset += (n > 0) ? n : 0;
    }

    if (n == -1 && errno != EAGAIN && errno != EINTR) {
        close_conn(fd);
        return -1;
    }

    if (n > 0) {
        c->left -= n;
    }

    if (c->left == 0) {
        return 0;
    }

    watch(ep, EPOLL_CTL_MOD, fd, EPOLLOUT);

    return -1;
}


static answer_t *
choose(conn_t *c, size_t len)
{
    char    *p, *last;
    size_t   n;

    if (kept) {
        return &answers[c->answered++ != 0];
    }

    if (nanswers == 1) {
        return answers;
    }

    if (len < sizeof(PREFIX) - 1 + DIGITS) {
        return NULL;
    }

    p = c->request + sizeof(PREFIX) - 1;
    n = 0;

    for (last = p + DIGITS; p < last; p++) {
        n = n * 10 + (*p - '0');
    }

    n = (n - FIRST_ID) / (ID_SPAN / nanswers);

    return (n < nanswers) ? &answers[n] : NULL;
}


static void
watch(int ep, int op, int fd, uint32_t events)
{
    struct epoll_event  event;

    memset(&event, 0, sizeof(event));
    event.events = events;
    event.data.fd = fd;

    if (epoll_ctl(ep, op, fd, &event) == -1) {
        die("epoll_ctl()");
    }
}


static void
close_conn(int fd)
{
    close(fd);
    free(conns[fd]);
    conns[fd] = NULL;
}


static void
die(const char *what)
{
    perror(what);
    exit(1);
}
