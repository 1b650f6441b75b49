# frozen_string_literal: true

# Writes keys with Dalli, as standard input says in JSON:
#
#   servers: as Dalli::Client.new takes them
#   options: as Dalli::Client.new takes them; compressor and serializer by name
#   values:  what to set, by key
#   set:     options of each set(), such as raw
#
# Prints, as JSON, the server that Dalli's ring gives for each key.

require 'dalli'
require 'json'

task = JSON.parse($stdin.read, symbolize_names: true)
Dalli.logger.level = Logger::ERROR

options = task[:options]
%i[compressor serializer].each do |name|
  options[name] = Object.const_get(options[name]) if options[name]
end

client = Dalli::Client.new(task[:servers], options)
servers = task[:values].to_h do |key, value|
  client.set(key.to_s, value, nil, task[:set]) or abort "#{key} was not set"
  [key, client.send(:ring).server_for_key(key.to_s).name]
end
client.close

puts JSON.generate(servers)
