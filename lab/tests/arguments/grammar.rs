//! The commands and options, parsed from `--help`.

/// An option, with the name of its value, if it takes one, and the listed values.
pub(crate) struct Opt {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) choices: Vec<String>,
}

/// A command: its words, its options, and the names of its required options and arguments.
pub(crate) struct Command {
    pub(crate) path: Vec<String>,
    pub(crate) options: Vec<Opt>,
    pub(crate) needed: Vec<String>,
    pub(crate) arguments: Vec<String>,
}

/// Returns all commands; the one without a name is first.
pub(crate) fn commands(help: &dyn Fn(&[String]) -> String) -> Vec<Command> {
    let mut all = Vec::new();
    // Hidden commands, which the program runs as children, are named here.
    let mut paths = vec![vec!["alone".to_owned()], vec!["cost".to_owned()], Vec::new()];
    while let Some(path) = paths.pop() {
        let asked: Vec<String> = path.iter().cloned().chain(["--help".to_owned()]).collect();
        let (command, below) = read(path, &help(&asked));
        let deeper = below
            .into_iter()
            .filter(|name| name != "help")
            .map(|name| command.path.iter().cloned().chain([name]).collect::<Vec<_>>());
        paths.extend(deeper);
        all.push(command);
    }
    all
}

/// Parses a command, and returns it with the names of its subcommands.
fn read(path: Vec<String>, help: &str) -> (Command, Vec<String>) {
    let (options, needed, arguments) = (Vec::new(), Vec::new(), Vec::new());
    let mut command = Command { path, options, needed, arguments };
    let (mut below, mut section) = (Vec::new(), "");
    for line in help.lines().take_while(|line| !line.starts_with("Examples:")) {
        let text = line.trim_start();
        let word = text.split_whitespace().next().unwrap_or_default();
        if text.len() == line.len() {
            section = text;
            if let Some(usage) = text.strip_prefix("Usage: ") {
                let needed = usage.split_whitespace().filter(|word| word.starts_with("--"));
                command.needed.extend(needed.map(str::to_owned));
            }
        } else if section == "Commands:" && line.starts_with("  ") && !line.starts_with("   ") {
            below.push(word.to_owned());
        } else if section == "Arguments:" && word.starts_with(['<', '[']) {
            command.arguments.push(name_of(word));
        } else if let Some(choice) = text.strip_prefix("- ") {
            let choice = choice.split(':').next().unwrap_or_default();
            if let Some(option) = command.options.last_mut() {
                option.choices.push(choice.to_owned());
            }
        } else if word.starts_with('-') {
            command.options.push(option(text));
        }
        if let (Some((_, listed)), Some(option)) =
            (text.split_once("[possible values: "), command.options.last_mut())
        {
            let listed = listed.trim_end_matches(']').split(", ");
            option.choices.extend(listed.map(str::to_owned));
        }
    }
    (command, below)
}

/// Parses `-o, --output <FILE>  What it is`: the last name of the option, and the name of its
/// value.
fn option(text: &str) -> Opt {
    let words = text.split_whitespace();
    let names: Vec<&str> = words.clone().take_while(|word| word.starts_with('-')).collect();
    let value = words.clone().nth(names.len()).filter(|word| word.starts_with(['<', '[']));
    let value = value.filter(|word| word.contains('<')).map(name_of);
    let name = names.last().map_or("", |name| name.trim_end_matches(','));
    Opt { name: name.to_owned(), value, choices: Vec::new() }
}

/// Extracts the name from `<FILE>`, `[TRACE]...` or `[<N>]`.
fn name_of(word: &str) -> String {
    word.trim_matches(['<', '>', '[', ']', '.', ' ']).to_owned()
}
