# frozen_string_literal: true

require "json"
require "rack/sendfile"
require "sinatra/base"

class Archive < Sinatra::Base
  FOLDER = ENV.fetch("APP_FILES")

  # nginx sends what send_file names
  use Rack::Sendfile, "X-Sendfile"

  set :environment, :production
  set :sessions, secret: "the secret of a test " * 4
  disable :logging

  # how often the application was asked
  before do
    line = "#{request.request_method} #{request.fullpath}\n"
    File.write(ENV.fetch("APP_COUNT"), line, mode: "a")
  end

  helpers do
    def path
      catalog = JSON.parse(File.read(File.join(FOLDER, "catalog.json")))
      row = catalog.fetch(params[:id]) { halt 404 }
      File.join(FOLDER, row["path"])
    end
  end

  get "/files/:id" do
    send_file path, disposition: :inline
  end

  get "/download/:id" do
    send_file path, disposition: :attachment
  end

  # The same for everybody: nginx may answer by itself for ten minutes.
  # rack-protection puts something into every session, so the answer would have
  # a Set-Cookie, and be nobody else's.
  get "/public/:id" do
    request.session_options[:skip] = true
    headers "X-Accel-Expires" => "600"
    send_file path, disposition: :inline
  end

  # Only for who is logged in: the session is a cookie.
  get "/mine/:id" do
    session[:visits] = session.fetch(:visits, 0) + 1
    headers "X-Accel-Expires" => "600"
    send_file path, disposition: :inline
  end
end
