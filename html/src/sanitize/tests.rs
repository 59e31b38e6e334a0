use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::*;

fn clean(html: &str) -> String {
    let sanitized = sanitized(
        html,
        Sanitizing {
            content_id: &mut |id| (id == "logo@x").then(|| "logo@x".into()),
            without_signatures: true,
            limit: 10_000,
        },
    );
    assert!(!sanitized.truncated);
    sanitized.html
}

#[test]
fn ordinary_html_is_kept() {
    for html in [
        "<p>Hello <b>Ada</b> &amp; <i>Bo</i></p>",
        "<ul><li>a</li><li>b</li></ul>",
        "<table border=\"1\"><tr><td colspan=\"2\" align=\"left\">x</td></tr></table>",
        "<a href=\"https://x.example/?a=1&amp;b=2\">x</a>",
        "<a href=\"mailto:a@b.example\">x</a>",
        "<img src=\"https://x.example/a.png\" alt=\"A\" width=\"3\">",
        "<img src=\"data:image/png;base64,iVBORw0KGgo=\">",
        "<blockquote type=\"cite\" cite=\"mid:1@x\">q</blockquote>",
        "<span style=\"color:red;font-family:'arial', sans-serif\">x</span>",
        "<span style=\"color:rgb(1, 2, 3)\">x</span>",
    ] {
        assert_eq!(clean(html), html);
    }
}

#[test]
fn active_content_is_removed() {
    for (html, expected) in [
        ("<script>x</script>a", "a"),
        ("<SCRIPT SRC=//x></SCRIPT >a", "a"),
        ("<style>p{}</style>a", "a"),
        ("<svg><script>x</script><a href=x>y</a></svg>a", "a"),
        ("<math><mtext><img src=x onerror=y></mtext></math>a", "a"),
        ("<iframe src=x>y</iframe>a", "a"),
        ("<object><p>x</p></object>a", "a"),
        (
            "<noscript><p title=\"</noscript><img src=x>\"></noscript>a",
            "&quot;&gt;a",
        ),
        ("<textarea><b>x</b></textarea>a", "a"),
        ("<template><b>x</b></template>a", "a"),
        ("<p onclick=x onload='y'>a</p>", "<p>a</p>"),
        ("<a href='javascript:x()'>a</a>", "<a>a</a>"),
        ("<a href=' java\nscript:x()'>a</a>", "<a>a</a>"),
        ("<a href='&#106;avascript:x()'>a</a>", "<a>a</a>"),
        ("<a href='data:text/html,x'>a</a>", "<a>a</a>"),
        ("<a href='/relative'>a</a>", "<a>a</a>"),
        ("<a href='//x.example'>a</a>", "<a>a</a>"),
        ("<img src='javascript:x' alt='Logo'>", "Logo"),
        (
            "<img src='data:image/svg+xml;base64,AA==' alt='<b>'>",
            "&lt;b&gt;",
        ),
        ("<img src='data:image/png;base64,\"><script>'>", ""),
        (
            "<form action=x><input name=a>b<button>c</button></form>",
            "b",
        ),
        (
            "<meta http-equiv=refresh content='0;url=x'><base href=x><link rel=x>a",
            "a",
        ),
        (
            "<p style='background:url(x);color:red'>a</p>",
            "<p style=\"color:red\">a</p>",
        ),
        ("<p style='background-color:url(x)'>a</p>", "<p>a</p>"),
        ("<p style='width:expression(x)'>a</p>", "<p>a</p>"),
        ("<p style='color:r\\65 d'>a</p>", "<p>a</p>"),
        ("<p style='position:fixed;top:0'>a</p>", "<p>a</p>"),
        ("<p style='color:red\"><script>'>a</p>", "<p>a</p>"),
        (
            "<p title='\"><script>x</script>'>a</p>",
            "<p title=\"&quot;&gt;&lt;script&gt;x&lt;/script&gt;\">a</p>",
        ),
        ("<p class=x id=y name=z>a</p>", "<p>a</p>"),
        ("<!-- c --><![endif]-->a<!DOCTYPE html>", "a"),
        ("&lt;script&gt;", "&lt;script&gt;"),
        (
            "<div style='display: none !important'>x<div>y</div></div>a",
            "a",
        ),
        ("<plaintext><b>x", ""),
        ("a<script>never closed", "a"),
    ] {
        assert_eq!(clean(html), expected, "{html}");
    }
}

#[test]
fn every_element_is_closed_in_order() {
    for (html, expected) in [
        ("<div><b>a", "<div><b>a</b></div>"),
        ("<b><i>a</b>c</i>", "<b><i>a</i></b>c"),
        ("</p></div>a", "a"),
        ("<p>a<p>b<div>c", "<p>a</p><p>b</p><div>c</div>"),
        ("<ul><li>a<li>b</ul>", "<ul><li>a</li><li>b</li></ul>"),
        (
            "<table><tr><td>a<td>b<tr><td>c</table>d",
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>d",
        ),
        (
            "<div><table><tr><td>a</div>b</td></tr></table></div>",
            "<div><table><tr><td>ab</td></tr></table></div>",
        ),
        ("<html><head></head><body>a</body></html>b", "ab"),
        ("<o:p>a</o:p><br/>b<hr>", "a<br>b<hr>"),
    ] {
        assert_eq!(clean(html), expected, "{html}");
    }
}

#[test]
fn pictures_of_the_message_keep_their_content_id() {
    for (html, expected) in [
        ("<img src=\"cid:logo@x\">", "<img src=\"cid:logo@x\">"),
        ("<img src='CID:logo%40x'>", "<img src=\"cid:logo@x\">"),
        ("<img src='cid:other' alt=o>", "o"),
        ("<img src='cid:%zz'>", ""),
    ] {
        assert_eq!(clean(html), expected, "{html}");
    }
}

#[test]
fn marked_signatures_are_removed() {
    let html = "<p>a</p><div class='gmail_signature'><div>Ada</div></div>\
        <pre class=\"moz-signature\" cols=\"72\">-- \nAda</pre><div id=Signature>x</div>b";
    assert_eq!(clean(html), "<p>a</p>b");
}

#[test]
fn the_size_and_the_depth_are_limited() {
    let short = |html: &str, limit| {
        sanitized(
            html,
            Sanitizing {
                content_id: &mut |_| None,
                without_signatures: false,
                limit,
            },
        )
    };
    let cut = short("<p>abc<b>def</b></p>", 8);
    assert_eq!((cut.html.as_str(), cut.truncated), ("<p>abc</p>", true));
    let deep = short(&"<div>".repeat(5000), 100_000);
    assert_eq!(deep.html.matches("<div>").count(), MAX_DEPTH);
    let begun = Instant::now();
    for html in [
        (0..40_000).fold(String::new(), |all, n| format!("{all}<b id={n}>"))
            + &"<p>x".repeat(40_000),
        "<div>".repeat(200_000) + &"</p>".repeat(200_000),
        "<svg>".repeat(200_000) + &"</svg>".repeat(100_000),
    ] {
        let _ = short(&html, 1024 * 1024);
    }
    assert!(begun.elapsed() < Duration::from_mins(1));
}

proptest! {
    #[test]
    fn the_output_is_stable_and_has_no_active_content(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "<script>", "</script>", "<p ", ">", "<", "\"", "'", "onerror=x", "style=", "<svg>",
                "</svg>", "<img src=", "cid:logo@x", "javascript:x", "<a href=", "text", "&lt;",
                "<!--", "-->", "<table>", "<td>", "</table>", "<style>", "</style>", "&#0;", "</p>",
                "<textarea>", "</textarea>", "<math>", "<title>", "</title>", "<![CDATA[", "]]>",
            ]),
            0..40,
        )
    ) {
        let once = clean(&parts.concat());
        prop_assert_eq!(clean(&once), once.clone());
        tokenize(&once, |token| {
            if let Token::Open(tag) = token {
                assert!(ELEMENTS.contains(&tag.name()), "{once}");
                for (name, value) in tag.attributes() {
                    let known = ATTRIBUTES.contains(&name)
                        || matches!(name, "src" | "href" | "cite" | "style");
                    assert!(known && (name != "href" || !value.contains("script")), "{once}");
                }
            }
            ControlFlow::Continue(())
        });
    }
}
