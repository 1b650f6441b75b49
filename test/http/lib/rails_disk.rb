# frozen_string_literal: true

# Active Storage of Rails itself, with a disk service at ROOT. Reads JSON:
#
#     {"files": [{"key":, "disposition":, "type":, "filename":, "expires_in":}],
#      "requests": [{"file": 0, "method": "GET", "headers": {}, "old": "", "new": ""}]}
#
# and writes the key of its signatures in hex, the path of each file's URL, and
# what Rails answers to each request, whose URL has "old" replaced by "new".

ENV['DATABASE_URL'] = 'sqlite3::memory:'

require 'json'
require 'base64'
require 'rails'
require 'action_controller/railtie'
require 'active_record/railtie'
require 'active_storage/engine'
require 'rack/mock'

root = ARGV.fetch(0)

# The application.
class App < Rails::Application
  config.root = ARGV.fetch(1)
  config.load_defaults 6.1
  config.secret_key_base = 'a' * 64
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.hosts.clear
  config.active_storage.service = :local
  config.active_storage.service_configurations = {
    local: { service: 'Disk', root: ARGV.fetch(0) },
    other: { service: 'Disk', root: "#{ARGV.fetch(0)}.other" }
  }
end
App.initialize!
ActiveStorage::Current.host = 'http://localhost'

input = JSON.parse($stdin.read)
paths = input['files'].map do |file|
  service = ActiveStorage::Blob.services.fetch(file.fetch('service', 'local'))
  url = service.url(file['key'], expires_in: file['expires_in'], content_type: file['type'],
                                 disposition: file['disposition'].to_sym,
                                 filename: ActiveStorage::Filename.new(file['filename']))
  url.delete_prefix('http://localhost')
end
answers = input['requests'].map do |request|
  path = paths[request['file']].sub(request['old'], request['new'])
  env = Rack::MockRequest.env_for("http://localhost#{path}", method: request['method'])
  request['headers'].each { |name, value| env["HTTP_#{name.upcase.tr('-', '_')}"] = value }
  status, headers, body = App.call(env)
  content = +''
  body.each { |part| content << part.b }
  { path: path, status: status, headers: headers, body: Base64.strict_encode64(content) }
end
key = App.key_generator.generate_key('ActiveStorage').unpack1('H*')
puts JSON.generate(key: key, root: root, paths: paths, answers: answers)
