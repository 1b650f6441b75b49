/*
 * Copyright (C) the ngx_sendfile authors
 *
 * The files in test/vectors: lines of fields with a tab between them, the first
 * one being their names.
 */


#ifndef _NSF_TEST_VECTORS_H_INCLUDED_
#define _NSF_TEST_VECTORS_H_INCLUDED_


#include <stddef.h>


#define NSF_TEST_ROWS    300
#define NSF_TEST_FIELDS  11

typedef struct {
    char                 *text;
    size_t                nrows;
    char                 *rows[NSF_TEST_ROWS][NSF_TEST_FIELDS];
} nsf_test_vectors_t;


/* fails the test if the file is not there or does not have so many lines */

void nsf_test_vectors(nsf_test_vectors_t *v, const char *name,
    size_t nfields, size_t nrows);
void nsf_test_vectors_free(nsf_test_vectors_t *v);

/* the number of the column with a name */

size_t nsf_test_column(const nsf_test_vectors_t *v, const char *name);

/* in place; returns the number of bytes */

size_t nsf_test_unhex(char *hex);

/*
 * Bytes of a field in which "%0a" is a byte and "%{4096 a}" so many times "a";
 * returns their number, which may not be over "size".
 */

size_t nsf_test_unescape(char *field, unsigned char *dst, size_t size);


#endif /* _NSF_TEST_VECTORS_H_INCLUDED_ */
