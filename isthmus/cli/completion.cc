// completion: scripts that make a shell complete commands and options, from the declarations.
#include <fmt/format.h>

#include "isthmus/cli/command.h"

namespace isthmus::cli {
namespace {

std::vector<std::string> OptionsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Lines of a shell `case`: the words that may follow each command.
std::string Cases(const CLI::App& app) {
  const std::string common = fmt::format("{}", fmt::join(OptionsOf(app), " "));
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    std::string words;
    for (const CLI::App* nested : command->get_subcommands({})) words += nested->get_name() + " ";
    words += fmt::format("{}", fmt::join(OptionsOf(*command), " "));
    cases += fmt::format("    {}) candidates=\"{} {}\" ;;\n", command->get_name(), words, common);
  }
  return cases;
}

std::string Commands(const CLI::App& app) {
  std::string names;
  for (const CLI::App* command : app.get_subcommands({})) names += command->get_name() + " ";
  return names;
}

void PrintBash(const CLI::App& app) {
  fmt::print(
      R"(_isthmus() {{
  local candidates
  case "${{COMP_WORDS[1]}}" in
{}    *) candidates="{}--help --version" ;;
  esac
  if [[ $COMP_CWORD -eq 1 ]]; then candidates="{}--help --version"; fi
  COMPREPLY=($(compgen -W "$candidates" -- "${{COMP_WORDS[COMP_CWORD]}}"))
}}
complete -o default -F _isthmus isthmus
)",
      Cases(app), Commands(app), Commands(app));
}

void PrintZsh(const CLI::App& app) {
  fmt::print(
      R"(#compdef isthmus
_isthmus() {{
  local candidates
  case "${{words[2]}}" in
{}    *) candidates="{}--help --version" ;;
  esac
  if (( CURRENT == 2 )); then candidates="{}--help --version"; fi
  compadd -- ${{=candidates}}
  _files
}}
compdef _isthmus isthmus
)",
      Cases(app), Commands(app), Commands(app));
}

}  // namespace

void AddCompletion(CLI::App& app, Context& /*context*/) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("completion", "Print a completion script for bash or zsh");
  command->footer("Example: source <(isthmus completion bash)");
  command->add_option("SHELL", *shell, "bash or zsh")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([shell, &app] { *shell == "bash" ? PrintBash(app) : PrintZsh(app); });
}

}  // namespace isthmus::cli
