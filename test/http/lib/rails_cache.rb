# frozen_string_literal: true

# Writes keys with Rails.cache (ActiveSupport's MemCacheStore), as standard
# input says in JSON:
#
#   servers: as MemCacheStore.new takes them
#   options: as MemCacheStore.new takes them
#   values:  what to write, by key
#   write:   options of each write(), such as expires_in
#
# Prints ActiveSupport's version.

require 'active_support'
require 'active_support/core_ext'
require 'active_support/cache'
require 'json'

task = JSON.parse($stdin.read, symbolize_names: true)

cache = ActiveSupport::Cache.lookup_store(
  :mem_cache_store, *task[:servers], task[:options]
)
task[:values].each do |key, value|
  cache.write(key.to_s, value, **task[:write]) or abort "#{key} was not written"
end

puts ActiveSupport.version
