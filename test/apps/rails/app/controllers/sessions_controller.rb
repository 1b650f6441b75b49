# frozen_string_literal: true

class SessionsController < ActionController::Base
  # In real life this asks for a password.
  def create
    session[:user] = params[:user]
    head :no_content
  end

  # nginx asks, for each request of a file, whether it may be sent.
  def check
    head session[:user] == "alice" ? :no_content : :forbidden
  end
end
