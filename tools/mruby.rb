# Copyright (C) the ngx_sendfile authors
#
# How mruby's own build system builds the library for us; tools/mruby.sh runs
# it. What a script can reach is what is listed here: neither files, sockets,
# processes nor eval.

GEMS = %w[
  array-ext catch class-ext compar-ext enum-chain enum-ext enum-lazy
  enumerator error fiber hash-ext kernel-ext math metaprog numeric-ext
  object-ext pack proc-ext random range-ext set sprintf string-ext struct
  symbol-ext time toplevel-ext
].freeze

MRuby::Build.new do |conf|
  conf.toolchain :gcc

  conf.cc.command = ENV.fetch('CC', 'gcc')
  conf.cc.defines << '_GNU_SOURCE'
  conf.cc.flags = %w[-std=gnu99 -g -fPIC -fvisibility=hidden -Wall]
  conf.cc.flags += ENV.fetch('MRUBY_FLAGS').split
  conf.linker.command = conf.cc.command
  conf.linker.flags += ENV.fetch('MRUBY_FLAGS').split

  conf.gem core: 'mruby-compiler'
  GEMS.each { |name| conf.gem core: "mruby-#{name}" }
end
