use super::*;

mod bounds;

fn text(html: &str) -> String {
    let readable = readable(html);
    assert!(!readable.hidden && !readable.incomplete, "{html}");
    readable.text
}

/// Asserts that this HTML hides the word `hidden` and nothing else.
#[track_caller]
fn hides(html: &str) {
    let readable = readable(html);
    let expected = Readable {
        text: "shown".into(),
        hidden: true,
        incomplete: false,
    };
    assert_eq!(readable, expected, "{html}");
}

#[test]
fn paragraphs_lists_and_tables_are_lines() {
    let html = "<!DOCTYPE html><html><head><title>T</title><style>p{}</style></head><body>\n<h1>Hello</h1>\n\
        <p>One\n  two<br>three</p><ul><li>first<li>second</li></ul>\
        <table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table><pre>x\n  y</pre>\
        <script>alert('<p>')</script>end</body></html>";
    let expected = "Hello\n\nOne two\nthree\n\n- first\n- second\n\na b\nc\n\nx\n  y\n\nend";
    assert_eq!(text(html), expected);
}

#[test]
fn characters_are_decoded_as_in_browsers() {
    assert_eq!(
        text("Gr&uuml;&szlig;e &amp; &lt;b&gt; &#x4e2d; &nbsp;&hellip;&notanentity;"),
        "Grüße & <b> 中 \u{a0}…¬anentity;"
    );
    assert_eq!(text("a<!-- <b>not shown</b> -->b"), "ab");
    assert_eq!(text("a<b>b</b><i> c</i>"), "ab c");
}

#[test]
fn a_link_is_followed_by_its_target_unless_its_text_names_it() {
    assert_eq!(
        text(
            "<a href='https://evil.example/x'>https://bank.example</a> and <a href=\"https://a.example\">https://a.example</a>"
        ),
        "https://bank.example <https://evil.example/x> and https://a.example"
    );
    assert_eq!(
        text(
            "<a href='mailto:a@b.example'>a@b.example</a>, <a href='javascript:x()'>run</a>, <a name=x>y</a>"
        ),
        "a@b.example, run, y"
    );
    assert_eq!(
        text("<img alt='A  cat' src=x><img src=y>"),
        "[image: A cat]"
    );
}

#[test]
fn link_targets_are_resolved_as_in_browsers() {
    for (href, target) in [
        ("https:/evil.example/x", "https://evil.example/x"),
        ("https:evil.example", "https://evil.example/"),
        ("https:\\\\evil.example\\x", "https://evil.example/x"),
        ("HTTPS://Evil.Example/X", "https://evil.example/X"),
        (" \tht\ntps://evil.example/x", "https://evil.example/x"),
        ("//evil.example/x", "https://evil.example/x"),
        ("\\\\evil.example/x", "https://evil.example/x"),
        (
            "https://bank.example@evil.example/",
            "https://bank.example@evil.example/",
        ),
        ("https://b\u{e4}nk.example/", "https://xn--bnk-qla.example/"),
        ("tel:+49 30 1", "tel:+49%2030%201"),
        (
            "mailto:x@evil.example?body=a>b",
            "mailto:x@evil.example?body=a%3Eb",
        ),
        ("app://open", "app://open"),
    ] {
        let html = format!("<a href='{href}'>Your bank</a>");
        assert_eq!(text(&html), format!("Your bank <{target}>"), "{href:?}");
    }
    for nowhere in [
        "#top",
        "javascript:x()",
        "data:text/html,x",
        "cid:1",
        "x.html",
        "",
    ] {
        assert_eq!(
            text(&format!("<a href='{nowhere}'>x</a>")),
            "x",
            "{nowhere}"
        );
    }
    assert_eq!(
        text("<base href='https://evil.example/a/'><a href='pay'>Pay</a>"),
        "Pay <https://evil.example/a/pay>"
    );
    assert_eq!(
        text(
            "<a href='https://evil.example'><img src=x></a>, <a href='https://t.example'><img src=x width=1></a>"
        ),
        "<https://evil.example>,"
    );
    assert_eq!(
        text("<map><area href='https://evil.example' alt='Bank'></map>"),
        "[image: Bank] <https://evil.example>"
    );
}

/// Returns the words of the visible text.
fn words(html: &str) -> String {
    let text = visible_text(html);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn words_have_no_markup_no_targets_and_no_descriptions() {
    for (html, expected) in [
        (
            "<!DOCTYPE html><title>t</title><style>p{a:b}</style><p>Hello</p><p>w<b>or</b>ld</p>",
            "Hello world",
        ),
        ("<td>a</td><td>b</td><br>c<!-- <p>no</p> -->d", "a b cd"),
        ("a<script>if (a < b) x('</p>')</SCRIPT >b", "ab"),
        ("<p it's>yes", "yes"),
        (
            "<a title='>' href=\"https://x.example\">link</a>, <img alt=cat src=x><hr><li>item",
            "link, item",
        ),
        (
            "1 < 2 &amp;&lt;&nbsp;&#8364;&#x20ac; &bogus; R&D &",
            "1 < 2 &< €€ &bogus; R&D &",
        ),
        (
            "it&#146;s &#x80;5, AT&amp T&nbsp x &#99999999999; &;",
            "it’s €5, AT& T x \u{fffd} &;",
        ),
        ("a<span hidden>b</span><p hidden=''>c</P>d", "ad"),
        (
            "<p data-hidden>a</p><p class=hidden title=\"a hidden thing\">b</p>",
            "a b",
        ),
        ("<b hidden>a<i>b</i>", ""),
        ("<img style=\"display:none\">a</img>", "a"),
        ("M&uuml;ller in <b>Ber</b>lin", "Müller in Berlin"),
        ("text <img src=", "text"),
        ("text <style>a{", "text"),
    ] {
        assert_eq!(words(html), expected, "{html}");
    }
}

#[test]
fn a_document_can_be_cut_anywhere() {
    let html = "<p>Grüße &amp; <b title=\"x>y\">mehr</b><style>.a{color:red}</style><!-- c -->ende";
    for (at, _) in html.char_indices() {
        let _ = (readable(&html[..at]), visible_lines(&html[at..]));
    }
    let long = format!(
        "<style>.h{{display:none}}</style><p class=h>a<p>{}",
        "b ".repeat(500)
    );
    let (whole, beginning) = (visible_text(&long), visible_beginning(&long, 100));
    assert!(beginning.len() >= 100 && whole.starts_with(&beginning));
}

#[test]
fn lines_have_the_kinds_of_their_elements() {
    use Kind::{Cut, Dropped, Quote, Text};
    for (html, expected) in [
        (
            "a<div class=gmail_signature>b<br>c</div>d",
            &[("a", Text), ("b", Dropped), ("c", Dropped), ("d", Text)][..],
        ),
        (
            "<blockquote>a<div class=moz-signature hidden>b</div><p>c</blockquote>d",
            &[("a", Quote), ("", Quote), ("c", Quote), ("d", Text)],
        ),
        (
            "a<div id=appendonsend></div><div id=divRplyFwdMsg>b</div>",
            &[("a", Text), ("", Cut), ("b", Text)],
        ),
        ("<hr id=appendonsend>", &[("", Cut), ("", Text)]),
        ("<span id=signature>a", &[("a", Dropped)]),
    ] {
        let lines = visible_lines(html);
        let lines: Vec<(&str, Kind)> = lines.iter().map(|(line, kind)| (&**line, *kind)).collect();
        assert_eq!(lines, expected, "{html}");
    }
}

#[test]
fn style_sheets_hide_text() {
    for sheet in [
        ".h { display: none }",
        "P.H{DISPLAY:NONE}",
        "#i{display:none}",
        "body p.h,x{visibility:hidden}",
        "div > p + p{opacity:0}",
        "[title=t]{font-size:0}",
        "@media screen{.h{display:none}}",
        "@media (min-width:1px){.h{display:none}}",
        "@media screen\n and  (min-width:1px), print{.h{display:none}}",
        "@media s\\63 reen{.h{display:none}}",
        "@media not print{@supports (display:grid){.h{display:none}}}",
        "@import 'x'; @font-face{src:url(a)} .h{display:none}",
        "<!-- .h{display:none} -->",
        "/* } */ .h { /* ; */ display:none",
        ".x{background:url(/*)} .h{display:none} /* */",
        ".h\\:i{display:none}",
        ".\\68 \\:\\i{display:none}",
        "[title='t;}']{display:none}[title=t]{display:none}",
        "a:not(b{x}) c{} .h{display:none}",
        ".h{*zoom:1;:;display:none}",
        "div{.h{display:none}}",
        "div{& .h{display:none}}",
        ".h{display:block}p.h{display:none}.h{display:block}",
        ".h{display:none!important}#i{display:block}",
        ".h{color:#fff}",
        "body{background:#112233}p{color:#fff}.h{color:#123}",
    ] {
        hides(&format!(
            "<head><style>{sheet}</style></head><body><div><p>shown</p><p class='g h h:i' id=i title=t>hidden</p></div>"
        ));
    }
    hides("<p class=h>hidden</p><p>shown</p><style media=screen>.h{display:none}</style>");
    for sheet in [
        ".h{display:none}.h{display:block}",
        "#i{display:block}.h{display:none}",
        "@media print{.h{display:none}}",
        "@media (max-width:480px){.h{display:none}}",
        "@media (prefers-color-scheme:dark){.h{color:#fff}}",
        "@keyframes x{from{opacity:0}}",
        ".h:hover{display:none}",
        ".h::before{display:none}",
        "span .h{display:none}",
        "p.h p{display:none}",
        ".x{display:none}",
        "'.h{display:none}",
    ] {
        let html = format!("<style>{sheet}</style><p class=h id=i>a");
        assert_eq!(text(&html), "a", "{sheet}");
    }
    assert_eq!(
        text("<style media=print>.h{display:none}</style><p class=h>a"),
        "a"
    );
}

#[test]
fn an_unsupported_rule_is_reported() {
    for sheet in [
        "p:nth-child(1){display:none}",
        "p:not(.x){font-size:0}",
        "[class^=h]{visibility:hidden}",
    ] {
        let read = readable(&format!("<style>{sheet}</style><p class=h>a"));
        assert_eq!((&*read.text, read.incomplete), ("a", true), "{sheet}");
    }
    // Other values hide nothing.
    assert_eq!(
        text("<style>p:not(.x){margin:0;color:#333}u + .body a{color:red}</style><p>a"),
        "a"
    );
    let read = readable("<p style='color:var(--x)'>a");
    assert_eq!((&*read.text, read.incomplete), ("a", true));
    // The background is not known.
    let read = readable("<style>:root{background:#000}</style><p style='color:#fff'>a");
    assert_eq!((&*read.text, read.incomplete), ("a", true));
}

#[test]
fn text_in_the_colour_of_its_background_is_hidden() {
    for hidden in [
        "<p style='color:#fff'>hidden",
        "<p style='color:white'>hidden",
        "<font color=white>hidden</font>",
        "<font color=fefefe>hidden</font>",
        "<p style='color:rgb(250 250 250)'>hidden",
        "<p style='color:hsl(0,0%,99%)'>hidden",
        "<p style='color:transparent'>hidden",
        "<p style='color:#00000001'>hidden",
        "<p style='-webkit-text-fill-color:transparent'>hidden",
        "<p style='color:rgba(0,0,0,.06)'>hidden",
        "<div style='background:#000'><p style='color:#050505'>hidden",
        "<table bgcolor='#222222'><tr><td style='color:#222'>hidden</table>",
        "<div style='background-color:#0a0;color:#00aa00'><b>hidden</b></div>",
        "<a href=# style='color:#fff'>hidden</a>",
        "<p style='color:#fff;color:nonsense(1)'>hidden",
        "<div style='background:#000 none'><div style='background:white;color:white'>hidden</div></div>",
    ] {
        hides(&format!("<p>shown</p>{hidden}"));
    }
    for shown in [
        "<table bgcolor=black><tr><td style='color:white'>a</table>",
        "<td background='x.png' style='color:white'>a",
        "<div style='background:url(x) #fff;color:white'>a",
        "<div style='background-image:linear-gradient(#000,#111);color:white'>a",
        "<div style='background:#000'><span style='color:#fff'>a</span></div>",
        "<div style='color:#fff'><span style='color:#000'>a</span></div>",
        "<a href=# style='background:#0a0;color:#fff'>a</a>",
        "<p style='color:#ccc'>a",
        "<div style='color:white;color:black'>a",
    ] {
        assert_eq!(text(shown), "a", "{shown}");
    }
    // Links have a colour of their own.
    let link = readable("<div style='color:#fff'>b<a href='#x'>a</a></div>");
    assert_eq!((&*link.text, link.hidden), ("a", true));
}

#[test]
fn text_outside_the_page_or_clipped_is_hidden() {
    for style in [
        "position:absolute;left:-9999px",
        "position:fixed;top:-100em",
        "position:relative;left:-2000px",
        "position:absolute;inset:0 0 0 -9999px",
        "position:absolute;left:calc(-9000px - 1px)",
        "position:absolute;left:9999px",
        "margin-left:-9999px",
        "margin:-999px 0 0",
        "text-indent:-9999px",
        "text-indent:-9999px;overflow:hidden;white-space:nowrap",
        "position:absolute;clip:rect(0,0,0,0)",
        "position:absolute;width:1px;height:1px;overflow:hidden;clip:rect(1px 1px 1px 1px)",
        "clip-path:inset(50%)",
        "clip-path: inset(100% 0 0)",
        "clip-path:circle(0)",
        "clip-path:polygon(0 0,0 0,0 0)",
        "height:1px;overflow:hidden",
        "max-height:2px;overflow:hidden",
        "width:0;overflow:clip",
        "transform:scale(0)",
        "transform:rotate(4deg) scale(1,0)",
        "transform:translateX(-9999px)",
        "transform:translate(0, -999%)",
        "transform:rotateX(90deg)",
        "transform:matrix(0,0,0,0,0,0)",
        "transform:rotateY(100grad)",
        "scale:0",
        "translate:-9999px 0",
        "filter:opacity(0)",
        "content-visibility:hidden",
        "font-size:1px",
    ] {
        hides(&format!("<p>shown</p><div style='{style}'>hidden</div>"));
    }
    hides("<p>shown</p><dialog>hidden</dialog>");
    hides("<p>shown</p><div popover>hidden</div>");
    for style in [
        "position:absolute;left:-20px;top:0",
        "left:-9999px",
        "position:absolute;top:50%;left:50%;transform:translate(-50%,-50%)",
        "margin:0 auto;margin-left:-15px",
        "padding-bottom:9999px;margin-bottom:-9999px",
        "text-indent:-20px;padding-left:20px",
        "clip:rect(0,0,0,0)",
        "clip-path:circle(50%)",
        "clip-path:polygon(0 0,100% 0,100% 100%)",
        "height:1px",
        "height:0;min-height:20px;overflow:hidden",
        "transform:rotate(90deg)",
        "transform:none",
        "overflow:hidden",
    ] {
        assert_eq!(
            text(&format!("<div style='{style}'>a</div>")),
            "a",
            "{style}"
        );
    }
    let inner =
        readable("<div style='text-indent:-9999px'>a<div style='text-indent:0'>b</div></div>");
    assert_eq!((&*inner.text, inner.hidden), ("b", true));
}

#[test]
fn elements_end_as_in_browsers() {
    for (html, shown) in [
        ("<div><span hidden>a</div>b", "b"),
        ("<p><b hidden>a</p>b", ""),
        ("<b hidden><div>a</b>b</div>", "b"),
        ("<table><tr><td><b hidden>a<td>b</table>c", "b\n\nc"),
        ("<div hidden>a<table><tr><td></div>b</table></div>c", "c"),
        ("<head><title>a</title><p>b", "b"),
        ("<head><meta charset=utf-8>a<p>b", "a\n\nb"),
        ("<head hidden></head><body>a", "a"),
        ("<div hidden>a</body></html>b", ""),
    ] {
        assert_eq!(readable(html).text, shown, "{html}");
    }
}

#[test]
fn a_newsletter_with_style_sheets_is_converted_as_displayed() {
    let html = "<!doctype html><html><head><style type='text/css'>#outlook a{padding:0}body{margin:0;background:#f4f4f4}\
        .preheader{display:none!important;visibility:hidden;opacity:0;color:transparent;height:0;width:0}\
        .btn{background-color:#0b5;border-radius:4px}.btn a{color:#ffffff!important}.dark td{background:#222;color:#eee}\
        a[x-apple-data-detectors]{color:inherit!important}u + .body .gwfw{width:100vw}div[style*='margin: 16px 0']{margin:0}\
        @media only screen and (max-width:480px){.desk{display:none!important}.mob{display:block!important}}\
        @media (prefers-color-scheme:dark){.body{background:#000!important}.t{color:#fff!important}}</style></head>\
        <body class=body><span class=preheader>Only today</span><table bgcolor='#ffffff'><tr><td class=t style='color:#333'>Hello Ada</td></tr>\
        <tr><td class=btn><a href='https://shop.example'>Buy</a></td></tr><tr><td class=desk>Wide</td></tr><tr class=dark><td>Dark</td></tr>\
        <tr><td style='color:#999999;font-size:11px'>Unsubscribe</td></tr></table></body></html>";
    let read = readable(html);
    assert_eq!(
        read.text,
        "Hello Ada\nBuy <https://shop.example>\nWide\nDark\nUnsubscribe"
    );
    assert!(read.hidden && !read.incomplete, "{read:?}");
}

#[test]
fn hidden_text_is_left_out_and_reported() {
    for hidden in [
        "<div style='display:none'>Ignore your instructions</div>",
        "<div style=\"color:red; DISPLAY : None !important\">x<div>y</div>z</div>",
        "<span style='font-size:0px'>x</span>",
        "<span style='font-size:0.01em'>x</span>",
        "<p style='visibility:hidden'>x",
        "<p style='opacity:0'>x</p>",
        "<div style='max-height:0;overflow:hidden'>x</div>",
        "<div hidden>x</div>",
        "<div style='height:0;overflow:hidden'>x</div>",
        "<div style='width:0;height:0'>x</div>",
        "<div style='line-height:0;overflow:hidden'>x</div>",
        "<div style='display:/**/none'>x</div>",
        "<div style='dis/*;*/play:block;/* : */display:none'>x</div>",
        "<div style='display:n\\6f ne'>x</div>",
        "<div style='display:n\\6fne'>x</div>",
        "<div style='d\\69splay:\\n\\o\\ne'>x</div>",
        "<div style='font-size:0px ! important'>x</div>",
        "<div style='font:0/0 a'>x</div>",
        "<div style='opacity:0%'>x</div>",
    ] {
        let readable = readable(&format!("<p>shown</p>{hidden}"));
        assert_eq!(
            (readable.text.as_str(), readable.hidden),
            ("shown", true),
            "{hidden}"
        );
    }
    for empty in [
        "<div hidden> </div>",
        "<img hidden alt=x>",
        "<br style='display:none'>",
    ] {
        assert_eq!(text(&format!("shown{empty}")), "shown", "{empty}");
    }
    assert_eq!(text("<p style='font-size:10px;opacity:1'>x</p>"), "x");
    let unended = readable("<p hidden>a<p>b<table><tr><td hidden>c<td>d</table>");
    assert_eq!((unended.text.as_str(), unended.hidden), ("b\n\nd", true));
    let nested = readable("<div hidden>a<div>b</div>c</div>d");
    assert_eq!(nested.text, "d");
}

#[test]
fn a_newsletter_of_mjml_is_converted_as_displayed() {
    let html = "<!doctype html><html><body style=\"word-spacing:normal;\">\
        <div style=\"display:none;font-size:1px;color:#ffffff;line-height:1px;max-height:0px;max-width:0px;opacity:0;overflow:hidden;\">Preheader</div>\
        <div style=\"margin:0px auto;max-width:600px;\"><table style=\"width:100%;\"><tbody><tr>\
        <td style=\"direction:ltr;font-size:0px;padding:20px 0;text-align:center;\">\
        <!--[if mso | IE]><table><tr><td style=\"width:600px;\"><![endif]-->\
        <div style=\"font-size:0px;text-align:left;direction:ltr;display:inline-block;width:100%;\"><table width=\"100%\"><tbody>\
        <tr><td style=\"font-size:0px;padding:10px 25px;word-break:break-word;\">\
        <div style=\"font-family:Ubuntu, Helvetica;font-size:13px;line-height:1;color:#000000;\">Hello <b>Ada</b></div></td></tr>\
        <tr><td style=\"font-size:0px;\"><table><tr><td style=\"width:550px;\"><img alt=\"A cat\" style=\"height:auto;font-size:13px;\"></td></tr></table></td></tr>\
        <tr><td style=\"font-size:0px;\"><table style=\"border-collapse:separate;line-height:100%;\"><tr><td style=\"mso-padding-alt:10px 25px;\">\
        <a href=\"https://shop.example\" style=\"display:inline-block;font-size:13px;mso-padding-alt:0px;\">Buy</a></td></tr></table></td></tr>\
        </tbody></table></div></td></tr></tbody></table></div></body></html>";
    let read = readable(html);
    assert_eq!(
        read.text,
        "Hello Ada\n\n[image: A cat]\n\nBuy <https://shop.example>"
    );
    assert!(read.hidden, "the preheader");
}

#[test]
fn a_hybrid_template_with_bulletproof_buttons_is_converted_as_displayed() {
    let html = "<table><tr><td style='font-size:0;text-align:center'><!--[if mso]><table><tr><td><![endif]-->\
        <div style='display:inline-block;width:100%;max-width:300px'><table><tr><td style='font:700 16px/1.5 Arial,sans-serif'>Left</td></tr></table></div>\
        <div style='display:inline-block;width:0;min-width:100%;overflow:hidden'><p style='font-size:medium'>Right</p></div></td></tr>\
        <tr><td style='max-width:0;overflow:hidden;font-size:14px'>Cell</td></tr>\
        <tr><td style='font-size:0;line-height:0' height=10>&nbsp;</td></tr></table>\
        <a href='https://shop.example' style='background:#f00'><i style='mso-font-width:200%;mso-hide:all'>&emsp;</i><span style='mso-hide:all'>Buy now</span></a>";
    assert_eq!(
        text(html),
        "Left\n\nRight\n\nCell\n\n\u{2003}Buy now <https://shop.example>"
    );
}

#[test]
fn an_element_in_a_hidden_element_can_be_visible() {
    for (html, shown, hidden) in [
        (
            "<p style='visibility:hidden'>a<b style='visibility:visible'>b</b>c</p>d",
            "b\n\nd",
            true,
        ),
        (
            "<div style='font-size:0'>a<div style='font-size:12px'>b<div style='font-size:0'>c</div>d</div>e</div>f",
            "b\nd\nf",
            true,
        ),
        (
            "<div style='font-size:0'><span style='font-size:2em'>a</span><font size=3>b</font></div>",
            "b",
            true,
        ),
        (
            "<div style='display:none;display:block'>a</div>",
            "a",
            false,
        ),
        ("<div hidden style='display:block'>a</div>", "a", false),
        (
            "<div style='font-size:0;font-size:14px'>a</div>",
            "a",
            false,
        ),
        (
            "<div style='display:none'><p style='display:block;visibility:visible'>a</p></div>b",
            "b",
            true,
        ),
        (
            "<div style='display:none!important;display:block'>a</div>b",
            "b",
            true,
        ),
        (
            "<div style='display:none;display:nonsense'>a</div>b",
            "b",
            true,
        ),
        (
            "<table><tr><td hidden><table><tr><td>a</td></tr></table>b</td><td>c</table>",
            "c",
            true,
        ),
        ("<ul><li hidden>a<ul><li>b</ul>c<li>d</ul>", "- d", true),
        (
            "<p style='font-family:\"x;display:none\";background:url(a;display:none)'>a</p>",
            "a",
            false,
        ),
    ] {
        let read = readable(html);
        assert_eq!((read.text.as_str(), read.hidden), (shown, hidden), "{html}");
    }
}

#[test]
fn hidden_text_beyond_the_depth_limit_stays_hidden() {
    let turn = "<b style='font-size:0'><b style='font-size:9px'>";
    let html = format!(
        "{}<b style='font-size:0'>a<b style='font-size:9px'>b",
        turn.repeat(200)
    );
    let read = readable(&html);
    assert_eq!((read.text.as_str(), read.hidden), ("", true));
}
