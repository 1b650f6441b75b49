# Copyright (C) the ngx_sendfile authors
#
# What is changed in mruby's source before it is built; tools/mruby.sh runs it.
#
# usage: ruby mruby_source.rb SOURCE
#
# One instruction of a script can call a built-in method that takes for ever.
# Most take a time that the memory they work on bounds. Those that do not are
# made to, or ask from time to time whether the script still has time:
# MRB_LONG_CALL, which may raise.

EDITS = [
  # every include has it, the module's too
  ['include/mrbconf.h', <<~BEFORE, <<~AFTER],
    #ifndef MRUBYCONF_H
    #define MRUBYCONF_H
  BEFORE
    #ifndef MRUBYCONF_H
    #define MRUBYCONF_H

    #define MRB_USE_DEBUG_HOOK
    #define MRB_STACK_MAX 65536
    #define MRB_STR_LENGTH_MAX 0
    #define MRB_ARY_LENGTH_MAX 0

    struct mrb_state;
    extern void (*mrb_long_call)(struct mrb_state *mrb, int weight);

    #define MRB_LONG_CALL(mrb, weight) \\
      do { if (mrb_long_call) mrb_long_call(mrb, weight); } while (0)
    #define MRB_LONG_CALL_ANY 64
  AFTER

  # methods that call methods, which need no instruction: ==, hash, inspect
  ['src/vm.c', <<~BEFORE, <<~AFTER],
    MRB_API mrb_value
    mrb_funcall_with_block(mrb_state *mrb, mrb_value self, mrb_sym mid, mrb_int argc, const mrb_value *argv, mrb_value blk)
    {
  BEFORE
    void (*mrb_long_call)(struct mrb_state *mrb, int weight);

    MRB_API mrb_value
    mrb_funcall_with_block(mrb_state *mrb, mrb_value self, mrb_sym mid, mrb_int argc, const mrb_value *argv, mrb_value blk)
    {
  AFTER
  ['src/vm.c', <<~BEFORE, <<~AFTER],
        if (!mrb->c->stbase) {
          stack_init(mrb);
        }
        if (ci - mrb->c->cibase > MRB_CALL_LEVEL_MAX) {
          mrb_exc_raise(mrb, mrb_obj_value(mrb->stack_err));
        }
        blk = ensure_block(mrb, blk);
  BEFORE
        if (!mrb->c->stbase) {
          stack_init(mrb);
        }
        if (ci - mrb->c->cibase > MRB_CALL_LEVEL_MAX) {
          mrb_exc_raise(mrb, mrb_obj_value(mrb->stack_err));
        }
        MRB_LONG_CALL(mrb, 1);
        blk = ensure_block(mrb, blk);
  AFTER

  # a string in another: the sum of their lengths, not the product
  ['src/string.c', <<~BEFORE, <<~AFTER],
      return mrb_memsearch_qs((const unsigned char *)x0, m, (const unsigned char *)y0, n);
  BEFORE
      y = memmem(y0, n, x0, m);
      return y ? y - (const unsigned char *)y0 : -1;
  AFTER

  # the same from behind, where there is no such function
  ['src/string.c', <<~BEFORE, <<~AFTER],
        while (sbeg <= s) {
          if ((mrb_int)(send - s) >= len && memcmp(s, t, len) == 0) {
  BEFORE
        mrb_int work = 0;
        while (sbeg <= s) {
          work += len;
          if (work > 65536) {
            MRB_LONG_CALL(mrb, MRB_LONG_CALL_ANY);
            work = 0;
          }
          if ((mrb_int)(send - s) >= len && memcmp(s, t, len) == 0) {
  AFTER

  # 1.5 << 4611686018427387903
  ['src/numeric.c', <<~BEFORE, <<~AFTER],
        while (width--) {
          val *= 2;
        }
  BEFORE
        while (width--) {
          mrb_float twice = val * 2;
          if (twice == val || twice != twice) break;
          val = twice;
        }
  AFTER

  # [] * 4611686018427387903
  ['src/array.c', <<~BEFORE, <<~AFTER],
      if (times == 0) return mrb_ary_new(mrb);
      if (ARY_MAX_SIZE / times < ARY_LEN(a1)) {
  BEFORE
      if (times == 0 || ARY_LEN(a1) == 0) return mrb_ary_new(mrb);
      if (ARY_MAX_SIZE / times < ARY_LEN(a1)) {
  AFTER

  # it draws until it has numbers that it has not drawn yet
  ['mrbgems/mruby-random/src/random.c', <<~BEFORE, <<~AFTER],
          retry:
            r = rand_i(random, len);
  BEFORE
          retry:
            MRB_LONG_CALL(mrb, MRB_LONG_CALL_ANY);
            r = rand_i(random, len);
  AFTER

  # a string of negative length has what memory has
  ['mrbgems/mruby-random/src/random.c', <<~BEFORE, <<~AFTER],
      mrb_get_args(mrb, "i", &i);

      mrb_value bytes = mrb_str_new(mrb, NULL, i);
  BEFORE
      mrb_get_args(mrb, "i", &i);

      if (i < 0) {
        mrb_raise(mrb, E_ARGUMENT_ERROR, "negative string size");
      }

      mrb_value bytes = mrb_str_new(mrb, NULL, i);
  AFTER

  # a pattern of n parts was walked to its end for each part of it
  ['mrbgems/mruby-string-ext/src/string.c', <<~BEFORE, <<~AFTER],
      struct tr_pattern *pat1;
      mrb_int i = 0;
  BEFORE
      struct tr_pattern *pat1, *last = ret;
      mrb_int i = 0;
  AFTER
  ['mrbgems/mruby-string-ext/src/string.c', <<~BEFORE, <<~AFTER],
          struct tr_pattern *p = ret;
          while (p->next != NULL) {
            p = p->next;
          }
          p->next = pat1;
  BEFORE
          last->next = pat1;
          last = pat1;
  AFTER

  # and for each byte of the string, of which there are no more than 256
  ['mrbgems/mruby-string-ext/src/string.c', <<~BEFORE, <<~AFTER],
      mrb_int lastch = -1;

      mrb_str_modify(mrb, mrb_str_ptr(str));
      tr_parse_pattern(mrb, &pat, p1, TRUE, NULL);
      tr_parse_pattern(mrb, &rep, p2, FALSE, &pat);
      s = RSTRING_PTR(str);
      len = RSTRING_LEN(str);

      for (i=j=0; i<len; i++,j++) {
        mrb_int n = tr_find_character(&pat, RSTRING_PTR(p1), s[i]);
  BEFORE
      mrb_int lastch = -1;
      mrb_int found[256], given[256];
      mrb_bool known[256] = { FALSE };

      mrb_str_modify(mrb, mrb_str_ptr(str));
      tr_parse_pattern(mrb, &pat, p1, TRUE, NULL);
      tr_parse_pattern(mrb, &rep, p2, FALSE, &pat);
      s = RSTRING_PTR(str);
      len = RSTRING_LEN(str);

      for (i=j=0; i<len; i++,j++) {
        uint8_t ch = (uint8_t)s[i];
        if (!known[ch]) {
          known[ch] = TRUE;
          found[ch] = tr_find_character(&pat, RSTRING_PTR(p1), s[i]);
          given[ch] = found[ch] < 0 ? -1 : tr_get_character(&rep, RSTRING_PTR(p2), found[ch]);
        }
        mrb_int n = found[ch];
  AFTER
  ['mrbgems/mruby-string-ext/src/string.c', <<~BEFORE, <<~AFTER]
          mrb_int c = tr_get_character(&rep, RSTRING_PTR(p2), n);
  BEFORE
          mrb_int c = given[ch];
  AFTER
].freeze

# <<~ takes the indentation of the least indented line; the source has its own
def lines(text, indent)
  text.gsub(/^(?=.)/, ' ' * indent)
end

source = ARGV.fetch(0)

EDITS.each do |name, before, after|
  path = File.join(source, name)
  text = File.binread(path)

  indent = (0..12).find { |n| text.scan(lines(before, n)).size == 1 }
  abort "mruby_source.rb: another #{name}: not once\n#{before}" unless indent

  File.binwrite(path, text.sub(lines(before, indent)) { lines(after, indent) })
end
