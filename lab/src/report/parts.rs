//! Parts of the page shared by several sections.

use maud::{Markup, html};

/// Formats sentences, each with its topic first.
pub(super) fn verdict(sentences: impl IntoIterator<Item = String>) -> Markup {
    html! {
        div.verdict {
            @for sentence in sentences {
                @match sentence.split_once(": ") {
                    Some((about, rest)) => p { b { (about) ": " } (rest) },
                    None => p { (sentence) },
                }
            }
        }
    }
}

/// Writes a figure for the script to fill.
pub(super) fn figure(kind: &str, trace: usize, title: &str, about: &str) -> Markup {
    html! {
        figure data-kind=(kind) data-trace=(trace) {
            figcaption { (title) small { (about) } }
            div.plot {}
        }
    }
}
