# frozen_string_literal: true

class FilesController < ActionController::Base
  rescue_from(Document::NotFound) { head :not_found }

  def show
    send_file document.path, disposition: "inline"
  end

  def download
    send_file document.path
  end

  # The same for everybody: nginx may answer by itself for ten minutes.
  def public
    response.headers["X-Accel-Expires"] = "600"
    send_file document.path, disposition: "inline"
  end

  # The same for everybody: browsers and proxies may keep it, and so may nginx.
  def cached
    expires_in 10.minutes, public: true
    send_file document.path, disposition: "inline"
  end

  # The same for all whom SessionsController#check lets pass: nginx asks that
  # before, so nothing is asked of the session here.
  def shared
    response.headers["X-Accel-Expires"] = "600"
    send_file document.path, disposition: "inline"
  end

  # Only for who is logged in: the session is a cookie.
  def mine
    session[:visits] = session.fetch(:visits, 0) + 1
    response.headers["X-Accel-Expires"] = "600"
    send_file document.path, disposition: "inline"
  end

  private

  def document
    @document ||= Document.find(params[:id])
  end
end
