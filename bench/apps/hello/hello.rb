# frozen_string_literal: true

# Hello world for Apache's mod_mruby.

Apache.rputs "hello world\n"
Apache.return Apache::OK
