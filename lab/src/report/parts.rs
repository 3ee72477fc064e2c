//! Parts of the page that several sections have.

use maud::{Markup, html};

/// Formats sentences, each with its topic in front.
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

/// Returns a figure that the script fills.
pub(super) fn figure(kind: &str, trace: usize, title: &str, about: &str) -> Markup {
    html! {
        figure data-kind=(kind) data-trace=(trace) {
            figcaption { (title) small { (about) } }
            div.plot {}
        }
    }
}
