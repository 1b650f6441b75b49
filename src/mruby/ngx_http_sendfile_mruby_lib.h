
/*
 * Copyright (C) the ngx_sendfile authors
 *
 * mruby's own headers, without our warnings: they are not ours to correct.
 */


#ifndef _NGX_HTTP_SENDFILE_MRUBY_LIB_H_INCLUDED_
#define _NGX_HTTP_SENDFILE_MRUBY_LIB_H_INCLUDED_


#pragma GCC system_header

#include <mruby.h>
#include <mruby/array.h>
#include <mruby/class.h>
#include <mruby/compile.h>
#include <mruby/dump.h>
#include <mruby/error.h>
#include <mruby/hash.h>
#include <mruby/irep.h>
#include <mruby/debug.h>
#include <mruby/proc.h>
#include <mruby/string.h>
#include <mruby/variable.h>
#include <mruby/version.h>


/* of mruby/internal.h in 3.2, of mruby/dump.h in 3.1 */

int mrb_dump_irep(mrb_state *mrb, const mrb_irep *irep, uint8_t flags,
    uint8_t **bin, size_t *bin_size);


#endif /* _NGX_HTTP_SENDFILE_MRUBY_LIB_H_INCLUDED_ */
