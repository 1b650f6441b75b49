# frozen_string_literal: true

require_relative 'helper'
require 'open3'

# The gem as `make gem` builds it.
class TestGem < GemTest
  FILE = File.join(Servers::ROOT, "build/ngx_sendfile-#{NgxSendfile::VERSION}.gem")

  def setup
    super
    run_it(File.join(Servers::ROOT, 'tools/build-gem.sh'))
    @home = Dir.mktmpdir
  end

  def teardown
    FileUtils.rm_rf(@home)
  end

  def run_it(*command, env: {})
    out, status = Open3.capture2e(env, *command)
    assert status.success?, out
    out
  end

  def test_building_it_again_changes_nothing
    before = File.binread(FILE)
    File.delete(FILE)
    run_it(File.join(Servers::ROOT, 'tools/build-gem.sh'))
    assert_equal before, File.binread(FILE)
  end

  def test_it_has_all_files
    listed = run_it('gem', 'specification', FILE, 'files').scan(/^- (.*)$/).flatten
    library = Dir.chdir(File.join(Servers::ROOT, 'gem')) { Dir['lib/**/*.rb'] }
    assert_equal (library + %w[CHANGELOG.md LICENSE README.md]).sort, listed.sort
  end

  def test_installed_it_can_be_required
    run_it('gem', 'install', '--local', '--ignore-dependencies', '--no-document', '--install-dir', @home, FILE)
    path = run_it(RbConfig.ruby, '-e', "gem 'ngx_sendfile'; require 'ngx_sendfile'; NgxSendfile::RackResponse; " \
                                       'puts $LOADED_FEATURES.grep(/ngx_sendfile.rb/)',
                  env: { 'GEM_PATH' => [@home, *Gem.path].join(':'), 'RUBYLIB' => nil })
    assert_includes path, @home
  end
end
