# frozen_string_literal: true

module NgxSendfile
  # In every error that this gem raises: <tt>rescue NgxSendfile::Error</tt>.
  module Error; end

  # A setting, or an argument of send_file, that makes no sense.
  class InvalidOption < ArgumentError
    include Error
  end

  # An ID whose key no store can have.
  class InvalidKey < ArgumentError
    include Error
  end

  # A record that nginx would not accept.
  class InvalidRecord < ArgumentError
    include Error
  end

  # memcached did not do what it was asked to.
  class StoreError < StandardError
    include Error
  end

  # nginx did not forget what it was asked to.
  class PurgeError < StandardError
    include Error
  end
end
