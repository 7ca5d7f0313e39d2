class Deltacli < Formula
  include Language::Python::Virtualenv

  desc "Inspect, check and maintain Delta and Paimon tables, without a JVM"
  homepage "https://github.com/deltacli/deltacli"
  url "https://github.com/deltacli/deltacli/releases/download/v@VERSION@/deltacli-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "python@3.13"

  def install
    virtualenv_create(libexec, "python3.13")
    system "python3.13", "-m", "pip", "--python", libexec/"bin/python", "install", "--only-binary", ":all:",
           "--require-hashes", "--requirement", "requirements/base.txt"
    system "python3.13", "-m", "pip", "--python", libexec/"bin/python", "install", "--no-deps", buildpath
    bin.install_symlink libexec/"bin/deltacli"
    man1.install Dir["docs/man/*.1"]
    bash_completion.install "completions/deltacli.bash" => "deltacli"
    zsh_completion.install "completions/_deltacli"
    fish_completion.install "completions/deltacli.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/deltacli --version")
    assert_match "deltacli.version", shell_output("#{bin}/deltacli --version --json")
  end
end
