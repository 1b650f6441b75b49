# frozen_string_literal: true

module NgxSendfile
  # that of the nginx module it comes with
  VERSION = '0.1.0'
end
