# frozen_string_literal: true

# A Sinatra application that sends the files below BENCH_FILES.

require 'sinatra/base'

FILES = ENV.fetch('BENCH_FILES')

class BenchApplication < Sinatra::Base
  set :environment, :production
  set :logging, false

  get '/files/*' do |path|
    send_file File.join(FILES, path), type: 'application/octet-stream'
  end
end

run BenchApplication
