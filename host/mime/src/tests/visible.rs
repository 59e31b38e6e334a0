//! Previews, the search index, the new text of replies and the texts of agents must agree on what a
//! person sees in HTML.

use latchmail_html::{readable, visible_lines, visible_text};

use super::*;
use crate::preview::Preview;

/// Attributes and style sheets that hide an element with these attributes.
const HIDING: [(&str, &str); 32] = [
    ("hidden", ""),
    ("popover", ""),
    ("style='display:none'", ""),
    ("style=\"color:red; DISPLAY : None !important\"", ""),
    ("style='dis/*;*/play:block;/* : */display:none'", ""),
    ("style='display:n\\6f ne'", ""),
    ("style='visibility:hidden'", ""),
    ("style='opacity:0'", ""),
    ("style='filter:opacity(0)'", ""),
    ("style='content-visibility:hidden'", ""),
    ("style='font-size:0'", ""),
    ("style='font-size:1px'", ""),
    ("style='font:0/0 a'", ""),
    ("style='max-height:0;overflow:hidden'", ""),
    ("style='height:1px;overflow:hidden'", ""),
    ("style='width:0;height:0'", ""),
    ("style='line-height:0;overflow:hidden'", ""),
    ("style='position:absolute;left:-9999px'", ""),
    ("style='position:absolute;clip:rect(0,0,0,0)'", ""),
    ("style='clip-path:inset(50%)'", ""),
    ("style='margin-left:-9999px'", ""),
    ("style='text-indent:-9999px'", ""),
    ("style='transform:scale(0)'", ""),
    ("style='color:transparent'", ""),
    ("style='background:#fff;color:#fefefe'", ""),
    ("class=h", ".h{display:none}"),
    (
        "class='a h b'",
        "@media screen{div .h,.h{visibility:hidden}}",
    ),
    ("id=h", "#h{font-size:0}"),
    ("class=h", "<!-- .h{opacity:0!important} -->"),
    (
        "class=h style='color:red'",
        ".h{color:#fff!important;background:#fff}",
    ),
    ("class='md:h'", ".md\\:h{display:none}"),
    ("title=t", "[title='t']{position:fixed;top:-999em}"),
];

/// Attributes and style sheets that do not hide an element.
const SHOWING: [(&str, &str); 14] = [
    ("", ""),
    ("data-hidden title='a hidden thing' class=hidden", ""),
    ("style='display:none;display:block'", ""),
    ("style='font-size:0.9em'", ""),
    ("style='font-size:0;font-size:14px'", ""),
    ("style='overflow:hidden'", ""),
    ("style='left:-9999px'", ""),
    ("style='background:#000;color:#fff'", ""),
    ("style='font-family:\"x;display:none\"'", ""),
    ("class=h", "@media print{.h{display:none}}"),
    ("class=h", "@media (max-width:480px){.h{display:none}}"),
    ("class=h", ".h{display:none}.h{display:block}"),
    ("class=h", "/* .h{display:none} */ .x{background:url(/*)}"),
    ("class=h", ".h:hover{display:none}"),
];

/// Elements around the element with the attributes `@`.
const PLACES: [&str; 10] = [
    "<p>before</p><div @>probe</div><p>after</p>",
    "<p>before <span @>probe</span> after</p>",
    "before<p @>probe<p>after",
    "<div>before<div><b><i><span @><b>probe</b></span></i></b></div></div>after",
    "<table><tr><td>before<td><span @>probe</span><td>after</table>",
    "<ul><li>before<li><div @>probe</div><li>after</ul>",
    "<!-- probe --><title>probe</title><script>'probe'</script>before<pre @>\nprobe\n</pre>after",
    "<div><div><div>before<section @><table><tr><td>probe</table></section></div></div>after</div>",
    "before<div @><p>probe</p></body></div>after",
    "<center>before<br><font @>probe</font><br>after</center>",
];

/// Returns the text without white space. The forms of output have different line breaks.
fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Returns whether `part` results from removing characters of `whole`.
fn is_contained(part: &str, whole: &str) -> bool {
    let mut rest = whole.chars();
    part.chars().all(|c| rest.any(|other| other == c))
}

/// Converts HTML in all forms and checks that each has the same visible text. Returns that text.
fn visible(html: &str) -> String {
    // Only agents get the targets of links, the descriptions of images and marks of lists.
    let plain = html
        .replace("href=", "data-a=")
        .replace("alt=", "data-b=")
        .replace("<li", "<dd")
        .replace("<hr", "<br");
    let text = letters(&visible_text(&plain));
    assert_eq!(letters(&readable(&plain).text), text, "{html}");
    let lines = visible_lines(&plain);
    let lines: String = lines.iter().map(|(line, _)| letters(line)).collect();
    assert_eq!(lines, text, "{html}");
    let new = letters(&new_text(None, Some(&plain)).unwrap());
    assert!(is_contained(&new, &text), "{new}: {html}");
    let header = b"Content-Type: text/html; charset=utf-8\r\n";
    // The beginning of a preview contains no words of invisible characters.
    let is_shown = |c: &char| invisible(*c).is_none() && !c.is_control();
    let shown: String = text.chars().filter(is_shown).collect();
    let preview = letters(&Preview::of_body(header, plain.as_bytes(), true).text);
    let preview: String = preview.chars().filter(is_shown).collect();
    let is_cut = preview.chars().count() > bounds::PREVIEW / 2;
    assert!(
        preview == shown || is_cut && shown.starts_with(&preview),
        "{preview}: {html}"
    );
    text
}

#[test]
fn every_form_of_a_generated_message_has_the_same_visible_text() {
    for place in PLACES {
        for (kinds, probe) in [(&HIDING[..], ""), (&SHOWING[..], "probe")] {
            for (attributes, sheet) in kinds {
                let body = place.replace('@', attributes);
                let expected = format!("before{probe}after");
                for html in [
                    format!("<html><head><style>{sheet}</style></head><body>{body}</body></html>"),
                    format!("{body}<style type='text/css'>{sheet}</style>"),
                ] {
                    assert_eq!(visible(&html), expected, "{html}");
                }
            }
        }
    }
}

#[test]
fn every_form_of_a_message_of_the_corpus_has_the_same_visible_text() {
    let mut count = 0;
    for (name, message) in super::corpus::corpus() {
        let Some(html) = content(&message, true).html else {
            continue;
        };
        let original = visible(&html);
        for (attributes, sheet) in HIDING {
            let sheet = format!("<style>{sheet}</style>");
            for hidden in [
                format!("{sheet}<div {attributes}>probe</div>{html}"),
                format!("{html}</div></td></table><div {attributes}>probe</div>{sheet}"),
            ] {
                assert_eq!(visible(&hidden), original, "{name}: {attributes}");
                count += 1;
            }
        }
    }
    assert!(count > 300, "{count} messages");
}
