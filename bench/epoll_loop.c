
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The floor of the benchmark's table "cache": a loop around epoll_wait() that
 * writes answers which are ready, head and body in one piece, in memory.
 *
 *     epoll_loop PORT ANSWERS [kept]
 *
 * ANSWERS is a file of a line of decimal lengths, and then the answers of
 * these lengths without anything between them.  With one answer nothing is
 * parsed: only the end of the request's head is looked for.  With more, the
 * eight digits after "GET /file/" are the answer's number, made as dataset.py
 * does.  With "kept" there are two: one for the first request of a connection,
 * one for those that follow, so that a server that asks this one can log
 * whether it kept the connection.  GET without a body over keep-alive
 * connections, which is what a benchmark sends; anything else closes the
 * connection.
 */


#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
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
    char    *data;
    size_t   len;
} answer_t;


typedef struct {
    size_t   used;
    char    *rest;
    size_t   left;
    size_t   answered;
    char     request[REQUEST];
} conn_t;


static void load(char *name);
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
static int        kept;
static conn_t    *conns[CONNECTIONS];


int
main(int argc, char **argv)
{
    int                 ep, fd, i, n, sock;
    struct epoll_event  events[EVENTS];

    kept = (argc == 4 && strcmp(argv[3], "kept") == 0);

    if (argc != 3 + kept) {
        fprintf(stderr, "usage: epoll_loop PORT ANSWERS [kept]\n");
        return 2;
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
    int     c;
    FILE   *file;
    size_t  i, len, room;

    file = fopen(name, "rb");
    if (file == NULL) {
        die(name);
    }

    room = 0;

    do {
        if (fscanf(file, "%zu", &len) != 1) {
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
        c = getc(file);

    } while (c == ' ');

    for (i = 0; i < nanswers; i++) {
        answers[i].data = malloc(answers[i].len);

        if (answers[i].data == NULL
            || fread(answers[i].data, answers[i].len, 1, file) != 1)
        {
            die("answers");
        }
    }

    fclose(file);
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

    c->rest = a->data;
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

    n = send(fd, c->rest, c->left, MSG_NOSIGNAL);

    if (n == -1 && errno != EAGAIN && errno != EINTR) {
        close_conn(fd);
        return -1;
    }

    if (n > 0) {
        c->rest += n;
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
