//! A crate's modules as read from its source files: declarations, imports and names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::iter::Peekable;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree, token_stream};

/// The path of a module or of a name, from the root.
pub(crate) type Names = Vec<String>;

/// All modules of a crate.
#[derive(Debug, Default)]
pub(crate) struct Crate {
    modules: BTreeMap<Names, Module>,
}

/// The contents of a module's source.
#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    /// Names it defines.
    defined: BTreeSet<String>,
    uses: Vec<Use>,
    /// Paths of at least two names in its code.
    paths: BTreeSet<Names>,
    /// Names in its code, except those in a `use`.
    words: BTreeSet<String>,
}

/// A name that a `use` brings into a module.
#[derive(Debug)]
struct Use {
    /// Its name there; `*` for all.
    name: String,
    path: Names,
    public: bool,
}

/// A use in one module of something defined in another.
#[derive(Debug)]
pub(crate) struct Import<'a> {
    pub(crate) from: &'a [String],
    pub(crate) from_file: &'a Path,
    pub(crate) to: &'a [String],
    pub(crate) to_file: &'a Path,
    /// The imported name, as written.
    pub(crate) name: &'a [String],
}

impl Crate {
    /// Reads the crate with this root file.
    pub(crate) fn read(root: &Path) -> Self {
        let mut all = Self::default();
        all.read_file(Vec::new(), root.to_owned());
        all
    }

    /// Returns the modules in the root, sorted.
    pub(crate) fn top_modules(&self) -> Vec<String> {
        self.modules.keys().filter(|path| path.len() == 1).map(|path| path[0].clone()).collect()
    }

    /// Returns the imports between the modules.
    pub(crate) fn imports(&self) -> impl Iterator<Item = Import<'_>> {
        self.modules.iter().flat_map(move |(from, module)| {
            let used = module.uses.iter().filter(move |used| self.is_import(from, module, used));
            let names = used.map(|used| &used.path).chain(&module.paths);
            names.filter_map(move |name| {
                let (to, target) = self.modules.get_key_value(&self.resolve(from, name, 0)?)?;
                let (from_file, to_file) = (&module.file, &target.file);
                Some(Import { from, from_file, to, to_file, name })
            })
        })
    }

    /// Returns whether a `use` is more than a re-export of names from the module's own submodules.
    fn is_import(&self, from: &Names, module: &Module, used: &Use) -> bool {
        let target = self.resolve(from, &used.path, 0);
        let own = target.is_some_and(|to| to.len() > from.len() && to.starts_with(from));
        !used.public || !own || module.words.contains(&used.name)
    }

    /// Returns the module that defines `name` as used in the module `from`. `None` if another crate
    /// defines it, or if it is itself a module, which is not an import by itself.
    fn resolve(&self, from: &Names, name: &[String], depth: usize) -> Option<Names> {
        assert!(depth < 32, "{name:?} in {from:?} leads round in a circle");
        let mut at = from.clone();
        for (index, part) in name.iter().enumerate() {
            let module = self.modules.get(&at)?;
            match part.as_str() {
                "crate" => at.clear(),
                "self" => {}
                "super" => drop(at.pop()),
                "*" => return Some(at),
                part if self.modules.contains_key(&child(&at, part)) => at.push(part.to_owned()),
                part => {
                    if module.defined.contains(part) {
                        return Some(at);
                    }
                    let rest = &name[index + 1..];
                    // In `use x::x`, the first name is another crate's.
                    let named = |used: &&Use| used.name == part && used.path[0] != part;
                    if let Some(used) = module.uses.iter().find(named) {
                        let whole: Names = used.path.iter().chain(rest).cloned().collect();
                        return self.resolve(&at, &whole, depth + 1);
                    }
                    if let Some(found) = self.through_glob(&at, part) {
                        return self.resolve(&found, &name[index..], depth + 1);
                    }
                    // A name made by a macro; or, at the start of a path, another crate or a type.
                    return (index > 0).then_some(at);
                }
            }
        }
        None
    }

    /// Returns the module from which one of `at`'s glob imports takes this name.
    fn through_glob(&self, at: &Names, name: &str) -> Option<Names> {
        self.modules[at].uses.iter().filter(|used| used.name == "*").find_map(|used| {
            let first = &used.path[0];
            let ours = ["crate", "self", "super"].contains(&first.as_str())
                || self.modules.contains_key(&child(at, first));
            let target = ours.then(|| self.resolve(at, &used.path, 0)).flatten()?;
            let module = &self.modules[&target];
            let has = module.defined.contains(name)
                || self.modules.contains_key(&child(&target, name))
                || module.uses.iter().any(|used| used.name == name);
            has.then_some(target)
        })
    }

    fn read_file(&mut self, path: Names, file: PathBuf) {
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let tokens: TokenStream = text.parse().unwrap_or_else(|error| panic!("{file:?}: {error}"));
        let stem = file.file_stem().expect("a source file has a name");
        let folder = file.parent().expect("a source file has a folder");
        let folder = match stem.to_str() {
            Some("lib" | "main" | "mod") => folder.to_owned(),
            _ => folder.join(stem),
        };
        self.read_module(path, file, &folder, tokens);
    }

    fn read_module(&mut self, path: Names, file: PathBuf, folder: &Path, tokens: TokenStream) {
        // There may be two modules of one name, for different systems, each with a body.
        let module = self.modules.entry(path.clone()).or_default();
        module.file = file.clone();
        let mut children = Vec::new();
        module.read(tokens, true, &mut children);
        for (name, body) in children {
            let path = child(&path, &name);
            match body {
                Some(body) => {
                    self.read_module(path, file.clone(), &folder.join(&name), body.stream());
                }
                None => {
                    let beside = folder.join(format!("{name}.rs"));
                    let within = folder.join(&name).join("mod.rs");
                    self.read_file(path, if beside.exists() { beside } else { within });
                }
            }
        }
    }
}

fn child(path: &Names, name: &str) -> Names {
    path.iter().map(String::as_str).chain([name]).map(str::to_owned).collect()
}

type Tokens = Peekable<token_stream::IntoIter>;
/// A module declared in another, with its contents if inline.
type Child = (String, Option<Group>);

impl Module {
    /// Reads code: of the module itself (`outermost`), or within braces in it.
    fn read(&mut self, tokens: TokenStream, outermost: bool, children: &mut Vec<Child>) {
        let mut tokens = tokens.into_iter().peekable();
        let mut public = false;
        let mut joined = false;
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == '#' => {
                    if skip_attribute(&mut tokens) {
                        skip_item(&mut tokens);
                    }
                    continue;
                }
                TokenTree::Punct(punct) => {
                    public = false;
                    joined = punct.as_char() == ':';
                    continue;
                }
                TokenTree::Group(group) => self.read(group.stream(), false, children),
                TokenTree::Literal(_) => {}
                TokenTree::Ident(ident) => match ident.to_string().as_str() {
                    "pub" => {
                        public = true;
                        if let Some(TokenTree::Group(group)) = tokens.peek()
                            && group.delimiter() == Delimiter::Parenthesis
                        {
                            tokens.next();
                        }
                        continue;
                    }
                    "use" => read_use(&mut tokens, &Vec::new(), public, &mut self.uses),
                    "mod" => children.extend(read_mod(&mut tokens)),
                    "fn" | "struct" | "enum" | "union" | "trait" | "type" | "const" | "static"
                    | "macro_rules"
                        if outermost =>
                    {
                        self.define(&mut tokens);
                    }
                    // The name after `::` of a path that starts with a type.
                    _ if joined => {}
                    name => self.read_path(name, &mut tokens),
                },
            }
            public = false;
            joined = false;
        }
    }

    /// Records the name after a keyword, if there is one: `const fn` and `static mut` are two
    /// keywords.
    fn define(&mut self, tokens: &mut Tokens) {
        tokens.next_if(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '!'));
        if let Some(TokenTree::Ident(name)) = tokens.peek()
            && !["fn", "unsafe", "extern", "mut"].iter().any(|keyword| name == keyword)
        {
            self.defined.insert(name.to_string());
            tokens.next();
        }
    }

    fn read_path(&mut self, first: &str, tokens: &mut Tokens) {
        let mut path = vec![first.to_owned()];
        while let Some(TokenTree::Punct(punct)) = tokens.peek()
            && punct.as_char() == ':'
        {
            // A single colon precedes a type, which is not part of the path.
            let mut ahead = tokens.clone();
            ahead.next();
            let Some(TokenTree::Punct(punct)) = ahead.next() else { break };
            let (':', Some(TokenTree::Ident(name))) = (punct.as_char(), ahead.next()) else {
                break;
            };
            path.push(name.to_string());
            *tokens = ahead;
        }
        self.words.insert(first.to_owned());
        if path.len() > 1 {
            self.paths.insert(path);
        }
    }
}

/// Reads an attribute after its `#`. Returns whether the next item is test-only.
fn skip_attribute(tokens: &mut Tokens) -> bool {
    tokens.next_if(|token| matches!(token, TokenTree::Punct(punct) if punct.as_char() == '!'));
    let Some(TokenTree::Group(attribute)) = tokens.next() else { return false };
    let text: String = attribute.stream().to_string().split_whitespace().collect();
    text == "cfg(test)" || text.starts_with("cfg(all(test,")
}

/// Skips an item: its remaining attributes, and everything up to its braces or semicolon.
fn skip_item(tokens: &mut Tokens) {
    for token in tokens {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == ';' => return,
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => return,
            _ => {}
        }
    }
}

fn read_mod(tokens: &mut Tokens) -> Option<Child> {
    let Some(TokenTree::Ident(name)) = tokens.next() else { return None };
    match tokens.next() {
        Some(TokenTree::Group(body)) => Some((name.to_string(), Some(body))),
        _ => Some((name.to_string(), None)),
    }
}

/// Reads the tree of a `use` to its end, or one branch of it up to a comma.
fn read_use(tokens: &mut Tokens, before: &Names, public: bool, uses: &mut Vec<Use>) {
    let mut path = before.clone();
    let mut name = None;
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(ident) if ident == "as" => {
                name = tokens.next().map(|alias| alias.to_string());
            }
            TokenTree::Ident(ident) => path.push(ident.to_string()),
            TokenTree::Punct(punct) if punct.as_char() == '*' => path.push("*".to_owned()),
            TokenTree::Punct(punct) if [',', ';'].contains(&punct.as_char()) => break,
            TokenTree::Group(branches) => {
                let mut branches = branches.stream().into_iter().peekable();
                while branches.peek().is_some() {
                    read_use(&mut branches, &path, public, uses);
                }
                // A group ends its branch: a comma or the end follows.
                tokens.next();
                return;
            }
            _ => {}
        }
    }
    // `x::{self}` is `x`.
    if path.len() > before.len() && path.len() > 1 && path.ends_with(&["self".to_owned()]) {
        path.pop();
    }
    if let Some(last) = path.last() {
        let name = name.unwrap_or_else(|| last.clone());
        uses.push(Use { name, path, public });
    }
}
