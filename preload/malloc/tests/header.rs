//! Checks that `pagewise.h` matches the library: it declares exactly the functions that
//! `src/prefixed.rs` exports, with the same types, and its structures have the same fields.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::{Fields, FnArg, Item, Pat, ReturnType, Type};

fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn items() -> Vec<Item> {
    syn::parse_file(&read("src/prefixed.rs")).expect("Rust").items
}

/// A C declaration of `name` with a type.
fn declaration(name: &str, of: &Type) -> String {
    match of {
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a name");
            let c = match last.ident.to_string().as_str() {
                "usize" => "size_t".to_owned(),
                "u64" => "uint64_t".to_owned(),
                "c_void" => "void".to_owned(),
                "c_int" => "int".to_owned(),
                "c_long" => "long".to_owned(),
                "c_char" => "char".to_owned(),
                // A function pointer that may be null.
                "Option" => {
                    let syn::PathArguments::AngleBracketed(arguments) = &last.arguments else {
                        panic!("an option of something");
                    };
                    let Some(syn::GenericArgument::Type(of)) = arguments.args.first() else {
                        panic!("an option of a type");
                    };
                    return declaration(name, of);
                }
                structure => format!("struct {structure}"),
            };
            format!("{c} {name}").trim_end().to_owned()
        }
        Type::Ptr(pointer) => {
            let is_pointer = matches!(*pointer.elem, Type::Ptr(_));
            let constant = if pointer.const_token.is_some() && !is_pointer { "const " } else { "" };
            constant.to_owned() + &declaration(&format!("*{name}"), &pointer.elem)
        }
        Type::BareFn(function) => {
            let types: Vec<_> =
                function.inputs.iter().map(|input| declaration("", &input.ty)).collect();
            format!("{} (*{name})({})", returned(&function.output), types.join(", "))
        }
        _ => panic!("{name}: no type of C"),
    }
}

fn returned(output: &ReturnType) -> String {
    match output {
        ReturnType::Default => "void".to_owned(),
        ReturnType::Type(_, of) => declaration("", of),
    }
}

/// The exported functions, as C declarations.
fn exported() -> BTreeMap<String, String> {
    let functions = items().into_iter().filter_map(|item| match item {
        Item::Fn(function) if function.sig.abi.is_some() => Some(function.sig),
        _ => None,
    });
    let prototype = |function: syn::Signature| {
        let arguments = function.inputs.iter().map(|input| {
            let FnArg::Typed(input) = input else { panic!("no method") };
            let Pat::Ident(name) = &*input.pat else { panic!("a name") };
            declaration(&name.ident.to_string(), &input.ty)
        });
        let arguments: Vec<_> = arguments.collect();
        let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments.join(", ") };
        let name = function.ident.to_string();
        let call = format!("{name}({arguments})");
        let declared = match &function.output {
            ReturnType::Default => format!("void {call}"),
            ReturnType::Type(_, of) => declaration(&call, of),
        };
        (name, declared)
    };
    functions.map(prototype).collect()
}

/// The header without comments, on one line with single spaces.
fn header() -> String {
    let mut text = read("include/pagewise.h");
    while let Some(start) = text.find("/*") {
        let length = text[start..].find("*/").expect("comments end") + 2;
        text.replace_range(start..start + length, " ");
    }
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
}

/// Returns whether the character can be part of a name.
fn in_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}

/// The header's declarations by name, without attributes.
fn declared() -> BTreeMap<String, String> {
    let header = header();
    // The part below is C++ and declares no functions of the library.
    let c = header.split("namespace pagewise").next().expect("the header");
    let mut found = BTreeMap::new();
    for statement in c.split([';', '{', '}']).map(str::trim) {
        let Some(start) = statement.find("pagewise_").filter(|_| statement.contains('(')) else {
            continue;
        };
        let at = statement.match_indices("pagewise_").map(|(at, _)| at).find(|&at| {
            let rest = statement[at..].trim_start_matches(in_name);
            rest.starts_with('(')
        });
        let at = at.unwrap_or(start);
        let name: String = statement[at..].chars().take_while(|&c| in_name(c)).collect();
        let without = statement.split(" PAGEWISE_").next().expect("the declaration");
        let before = found.insert(name.clone(), without.to_owned());
        assert_eq!(before, None, "{name} is declared once");
    }
    found
}

#[test]
fn exactly_the_exported_functions_are_declared_with_their_types() {
    let exported = exported();
    assert!(exported.len() > 12, "the functions are found: {exported:?}");
    assert_eq!(declared(), exported);
}

#[test]
fn structures_have_the_fields_of_the_library() {
    let header = header();
    let mut structures = 0;
    for item in items() {
        let Item::Struct(structure) = item else { continue };
        let Fields::Named(fields) = &structure.fields else { panic!("named fields") };
        let fields = fields.named.iter().map(|field| {
            declaration(&field.ident.as_ref().expect("a name").to_string(), &field.ty) + ";"
        });
        let fields: Vec<_> = fields.collect();
        let expected = format!("struct {} {{ {} }};", structure.ident, fields.join(" "));
        assert!(header.contains(&expected), "the header has no `{expected}`");
        structures += 1;
    }
    assert_eq!(structures, 2);
}

#[test]
fn the_header_has_the_version() {
    let version = env!("CARGO_PKG_VERSION");
    let line = format!("#define PAGEWISE_VERSION \"{version}\"");
    assert!(read("include/pagewise.h").contains(&line), "no `{line}`");
}

#[test]
fn types_are_written_as_in_c() {
    let of = |text: &str| declaration("x", &syn::parse_str::<Type>(text).expect("a type"));
    assert_eq!(of("*const c_void"), "const void *x");
    assert_eq!(of("*mut *mut c_void"), "void **x");
    assert_eq!(
        of("Option<unsafe extern \"C\" fn(usize, *mut s) -> c_int>"),
        "int (*x)(size_t, struct s *)"
    );
}
