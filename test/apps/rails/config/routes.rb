# frozen_string_literal: true

Rails.application.routes.draw do
  get "/files/:id", to: "files#show"
  get "/download/:id", to: "files#download"
  get "/public/:id", to: "files#public"
  get "/cached/:id", to: "files#cached"
  get "/mine/:id", to: "files#mine"
  get "/shared/:id", to: "files#shared"

  get "/login/:user", to: "sessions#create"
  get "/check", to: "sessions#check"
end
