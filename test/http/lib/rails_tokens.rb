# frozen_string_literal: true

# Tokens of ActiveSupport::MessageVerifier itself: SECRET SALT DIGEST PURPOSE
# EXPIRES. The first line is the key in hex, then one token a line.

require 'json'
require 'active_support'
require 'active_support/key_generator'
require 'active_support/message_verifier'
require 'active_support/core_ext/integer/time'

secret, salt, digest, purpose, expires = ARGV
key = ActiveSupport::KeyGenerator.new(secret, iterations: 1000).generate_key(salt)
puts key.unpack1('H*')

at = Time.at(Integer(expires))
[Marshal, JSON].each do |serializer|
  verifier = ActiveSupport::MessageVerifier.new(key, digest: digest, serializer: serializer)
  puts verifier.generate('héllo/1.jpg', purpose: purpose)
  puts verifier.generate(297_887, purpose: purpose, expires_at: at)
  puts verifier.generate('none of it')
  puts verifier.generate({ key: 'a' }, purpose: purpose)
end
