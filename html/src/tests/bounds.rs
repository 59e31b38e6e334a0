//! Limits of time and memory, and properties of any HTML.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

#[test]
fn the_cost_of_styles_is_linear() {
    let begun = Instant::now();
    for html in [
        "<b style='font-size:0'><b style='font-size:9px'>".repeat(20_000),
        format!("<p style='{}'>", "height:1px;".repeat(90_000)),
        format!("<p style='{}'>", "\\".repeat(1_000_000)),
        format!("<p style='{}'>", "/*".repeat(500_000)),
    ] {
        let _ = readable(&html);
    }
    assert!(
        begun.elapsed() < Duration::from_mins(2),
        "{:?}",
        begun.elapsed()
    );
}

/// Debug builds take about 20 times as long as release builds.
#[test]
fn the_cost_of_style_sheets_is_bounded() {
    let deep = "<div class=a>".repeat(250);
    let many = "<p class=a>x".repeat(60_000);
    let words: Vec<String> = (0..60_000).map(|n| format!("c{n}")).collect();
    let words = words.join(" ");
    for (sheet, html) in [
        // A selector with as many possible matches as its ancestors have subsets.
        (
            format!("{}.b{{color:red}}", ".a ".repeat(40)),
            format!("{deep}<i class=b>x</i>"),
        ),
        (".a{color:red}".repeat(20_000), many.clone()),
        (
            format!(".a{{{}}}", "color:red;".repeat(25_000)),
            many.clone(),
        ),
        (".a + ".repeat(1000) + ".a{color:red}", many.clone()),
        ("*{color:red}".repeat(3000), many.clone()),
        ("{".repeat(250_000), many.clone()),
        ("@media all{".repeat(20_000), many.clone()),
        (
            format!("@media {}{{}}", "not ".repeat(60_000)),
            many.clone(),
        ),
        (",".repeat(250_000) + "{color:red}", many.clone()),
        ("a{".repeat(100_000), many.clone()),
        ("/*".repeat(100_000), many.clone()),
        ("\\".repeat(250_000), many.clone()),
        ("'".repeat(250_000), many.clone()),
        (
            format!(".a{{color:{}red}}", "rgb(from ".repeat(20_000)),
            many.clone(),
        ),
        (
            ".c1{color:red}".repeat(1000),
            format!("<p class='{words}'>x").repeat(3),
        ),
    ] {
        let begun = Instant::now();
        let read = readable(&format!("<style>{sheet}</style>{html}"));
        assert!(read.text.contains('x'));
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(30), "{took:?}: {sheet:.20}");
    }
}

#[test]
fn the_cost_of_deep_and_large_html_is_linear() {
    let begun = Instant::now();
    for html in [
        "<div>".repeat(200_000),
        "<a href='https://x.example'>".repeat(40_000),
        "<div hidden>".repeat(100_000),
        "<".repeat(1_000_000),
        "&".repeat(1_000_000),
        "<!--".repeat(250_000),
        format!("<p {}>", "x=y ".repeat(250_000)),
        "</a>".repeat(250_000),
        format!("<b><td>{}{}", "<div>".repeat(250), "</b>".repeat(200_000)),
        format!("{}{}", "<b><p>".repeat(120), "</b></p>".repeat(100_000)),
    ] {
        let _ = readable(&html);
    }
    assert!(
        begun.elapsed() < Duration::from_mins(2),
        "{:?}",
        begun.elapsed()
    );
}

proptest! {
    #[test]
    fn any_html_becomes_text_of_bounded_length(html in any::<String>()) {
        let readable = readable(&html);
        prop_assert!(readable.text.len() <= 16 * (html.len() + 1));
    }

    #[test]
    fn tags_in_any_order_preserve_visible_words(
        tags in prop::collection::vec(prop::sample::select(vec![
            "<p>", "</p>", "<b>", "</div>", "<div>", "<br>", "<li>", "</li>", "<pre>", "</pre>", "<a href='https://x.example'>", "</a>", "<td>", "<hr>",
        ]), 0..40)
    ) {
        let html: String = tags.iter().flat_map(|tag| [tag, "word"]).collect();
        let shown = readable(&html).text.matches("word").count();
        prop_assert_eq!(shown, tags.len());
    }

    #[test]
    fn hidden_text_in_any_order_of_tags_is_reported_or_preserved(
        tags in prop::collection::vec(prop::sample::select(vec![
            "<table>", "</table>", "<tr>", "</tr>", "<td hidden>", "<td style='font-size:0'>", "<td style='font-size:9px'>", "</td>", "<ul>", "</ul>",
            "<li style='visibility:hidden'>", "</li>", "<p style='visibility:visible'>", "</p>", "<div style='font:0/0 a'>", "</div>", "<br hidden>",
        ]), 0..60)
    ) {
        let html: String = tags.iter().flat_map(|tag| [tag, "word"]).collect();
        let readable = readable(&html);
        let shown = readable.text.matches("word").count();
        prop_assert_eq!(readable.hidden, shown < tags.len());
    }
}
