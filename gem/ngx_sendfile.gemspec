# frozen_string_literal: true

require_relative 'lib/ngx_sendfile/version'

Gem::Specification.new do |spec|
  spec.name = 'ngx_sendfile'
  spec.version = NgxSendfile::VERSION
  spec.summary = "Files by ID from nginx: the application's side of ngx_sendfile"
  spec.description = 'X-Sendfile for Rails, Rack and Sinatra, answers that nginx may learn, ' \
                     'and records that tell nginx which file an ID is.'
  spec.authors = ['the ngx_sendfile authors']
  spec.license = 'BSD-2-Clause'
  spec.files = Dir['lib/**/*.rb', 'README.md', 'CHANGELOG.md', 'LICENSE', base: __dir__].sort
  spec.required_ruby_version = '>= 3.0'
  spec.add_dependency 'dalli', '>= 3.0', '< 6'
  # no default gem any more since Ruby 4.0
  spec.add_dependency 'logger', '>= 1.4'
  spec.metadata['rubygems_mfa_required'] = 'true'
end
