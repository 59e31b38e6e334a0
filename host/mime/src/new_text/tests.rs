//! Compares the new text of replies with expected texts.
//!
//! A file of the corpus contains the replies of one language. A line that starts with `===` and a
//! name begins a reply. In plain text, a line with `+` is new and a line with `|` is not. A reply
//! without such lines is HTML, and the expected text follows after a line with `---`.

use std::path::Path;
use std::time::{Duration, Instant};

use super::*;

/// Minimum number of replies with the expected text, in percent.
const REQUIRED: usize = 97;

/// The replies with another text than the expected one.
const KNOWN_FAILURES: [&str; 2] = ["de: aufzählung", "ko: outlook 모바일"];

struct Reply {
    name: String,
    text: Option<String>,
    html: Option<String>,
    expected: String,
}

fn reply(name: &str, lines: &[&str]) -> Reply {
    let name = name.to_owned();
    if let Some(end) = lines.iter().position(|line| *line == "---")
        && lines[0].starts_with('<')
    {
        return Reply {
            name,
            text: None,
            html: Some(lines[..end].join("\n")),
            expected: lines[end + 1..].join("\n"),
        };
    }
    let mut text = String::new();
    let mut expected: Vec<Vec<&str>> = vec![vec![]];
    for line in lines {
        let (mark, content) = line.split_at(1);
        text.push_str(content);
        text.push('\n');
        match mark {
            "+" => expected.last_mut().unwrap().push(content.trim_end()),
            "|" => expected.push(vec![]),
            _ => panic!("{name}: {line}"),
        }
    }
    let paragraphs = expected.iter().map(|lines| lines.join("\n"));
    let paragraphs: Vec<_> = paragraphs
        .map(|paragraph| paragraph.trim_matches('\n').to_owned())
        .filter(|paragraph| !paragraph.is_empty())
        .collect();
    Reply {
        name,
        text: Some(text),
        html: None,
        expected: paragraphs.join("\n\n"),
    }
}

fn corpus() -> Vec<Reply> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/replies");
    let mut replies = Vec::new();
    let mut files: Vec<_> = Path::new(folder)
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    for file in files {
        let language = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let content = std::fs::read_to_string(&file).unwrap();
        let content = content.strip_prefix("=== ").unwrap();
        for part in content.split("\n=== ") {
            let lines: Vec<_> = part.trim_end_matches('\n').split('\n').collect();
            replies.push(reply(&format!("{language}: {}", lines[0]), &lines[1..]));
        }
    }
    replies
}

#[test]
#[expect(clippy::print_stdout, reason = "prints the failures")]
fn the_new_text_of_replies_in_fifteen_languages_is_found() {
    let replies = corpus();
    let mut failures = Vec::new();
    for reply in &replies {
        let found = new_text(reply.text.as_deref(), reply.html.as_deref()).unwrap();
        if found.trim_end() != reply.expected.trim_end() {
            failures.push(reply.name.as_str());
            println!(
                "{}\nexpected:\n{}\nfound:\n{found}\n",
                reply.name, reply.expected
            );
        }
        // Line breaks of mail messages have the same result.
        let crlf = reply.text.as_ref().map(|text| text.replace('\n', "\r\n"));
        assert_eq!(
            new_text(crlf.as_deref(), reply.html.as_deref()),
            Some(found)
        );
    }
    let correct = replies.len() - failures.len();
    println!("{correct} of {} replies are correct", replies.len());
    assert!(
        correct * 100 >= replies.len() * REQUIRED,
        "{correct} of {}",
        replies.len()
    );
    // Some languages have so few replies that the percentage does not show whether their phrases
    // are known.
    failures.retain(|name| !KNOWN_FAILURES.contains(name));
    assert!(failures.is_empty(), "{failures:?}");
}

fn of_text(text: &str) -> String {
    new_text(Some(text), None).unwrap()
}

fn of_html(html: &str) -> String {
    new_text(None, Some(html)).unwrap()
}

#[test]
fn a_message_without_text_of_its_author_has_an_empty_text() {
    assert_eq!(new_text(None, None), None);
    for text in [
        "",
        "\r\n",
        "> a\n> b\n",
        "Sent from my iPhone",
        "On 9 Nov 2026, at 16:12, a@b.c wrote:\n\n> a",
        "-- \nAda",
    ] {
        assert_eq!(of_text(text), "", "{text:?}");
    }
    for html in [
        "",
        "<p></p>",
        "<blockquote>a</blockquote>",
        "<div class=gmail_signature>Ada</div>",
        "<p style='display: none'>a</p>",
        "<p hidden>a</p>",
    ] {
        assert_eq!(of_html(html), "", "{html:?}");
    }
}

#[test]
fn text_that_resembles_a_quote_or_a_signature_is_kept() {
    for text in [
        "Holiday\nDate: 9 November\nFrom: Monday\nTo: Friday\n\nOkay?",
        "On 9 November 2026 he wrote:\nit is cold.",
        "answer\n> question",
        "Dear all,\n\nplease see below.\n\nRegards\nAda\n\nThe new number is +44 113 496 0000, please use it.",
        "Sent from the office, the letter arrived in time for the mobile team.",
        "a\n--\nb\n--\nc",
        "This message is important.\n\nPlease read it.",
    ] {
        let expected: Vec<_> = text
            .split('\n')
            .filter(|line| !line.starts_with('>'))
            .collect();
        assert_eq!(of_text(text), expected.join("\n"), "{text:?}");
    }
    // The answer follows a quoted question without a blank line.
    let long = "x".repeat(70);
    assert_eq!(of_text(&format!("> {long}?\nyes\n> and you?")), "yes");
}

#[test]
fn links_do_not_keep_the_line_of_a_mail_client() {
    for line in [
        "Sent from Mail<https://go.microsoft.com/fwlink/?LinkId=550986> for Windows",
        "Sent from [Mail](https://go.microsoft.com/fwlink/?LinkId=550986) for Windows 10",
        "Get Outlook for iOS (https://aka.ms/o0ukef?a=1,2)",
        "Sent from Outlook https://example.org/?a!b",
        "Sent from Mail <https://go.microsoft.com/fwlink/?LinkId=550986> for\nWindows",
    ] {
        assert_eq!(of_text(&format!("Yes.\n\n{line}\n")), "Yes.", "{line}");
    }
    let long = format!(
        "Sent from Mail<https://a.example/?{}> for Windows",
        "x".repeat(900)
    );
    assert_eq!(of_text(&format!("Yes.\n\n{long}")), "Yes.");
    let kept = "Sent from my office: https://example.org/?a=b";
    assert_eq!(of_text(kept), kept);
}

#[test]
fn an_introduction_can_have_no_address() {
    for introduction in [
        "Ada Lovelace wrote:",
        "Ada Lovelace a écrit :",
        "schrieb Ada Lovelace:",
        "이영희 작성:",
        "רות כהן כתב/ה:",
    ] {
        let text = format!("Yes.\n\n{introduction}\n> Really?\n");
        assert_eq!(of_text(&text), "Yes.", "{introduction}");
    }
    let text = "Yes.\n\n2026-11-09 16:12, Ada Lovelace wrote:\n\nReally?";
    assert_eq!(of_text(text), "Yes.");
    let kept = "This is what she wrote:";
    assert_eq!(of_text(&format!("{kept}\n> Really?")), kept);
}

#[test]
fn invisible_characters_hide_nothing_and_are_kept_in_the_text() {
    let mark = '\u{200f}';
    let text = format!(
        "{mark}Yes.{mark}\n\n{mark}\u{202a}On 9 Nov 2026 16:12 Ada <a@b.c> wrote:\u{202c}\n\n{mark}> Really?\n"
    );
    assert_eq!(of_text(&text), format!("{mark}Yes.{mark}"));
    assert_eq!(of_text(&format!("Yes.\n{mark}-- \nAda")), "Yes.");
}

#[test]
fn html_is_used_only_without_plain_text() {
    let html = Some("<p>html</p>");
    assert_eq!(new_text(Some("text"), html).unwrap(), "text");
    assert_eq!(new_text(Some(" \r\n"), html).unwrap(), "html");
    assert_eq!(new_text(Some(" \r\n"), None).unwrap(), "");
}

#[test]
fn html_is_converted_to_lines() {
    for (html, expected) in [
        ("a<br>b<br><br>c", "a\nb\n\nc"),
        (
            "<div>a</div><div>b<br></div><div><br></div><div>c</div>",
            "a\nb\n\nc",
        ),
        ("<p>a\n b</p>\n<p>c</p>", "a b\n\nc"),
        (
            "<p class=MsoNormal>a</p><p class=MsoNormal>&nbsp;</p><p class=MsoNormal>b</p><p class=MsoNormal>c</p>",
            "a\n\nb\nc",
        ),
        ("<pre>a\n  b\n\nc</pre>d", "a\n  b\n\nc\nd"),
        (
            "<table><tr><td>a</td><td>b</td></tr><tr><td>c</td></tr></table>",
            "a b\nc",
        ),
        ("a &lt;b&gt; &amp; <b>c</b>d", "a <b> & cd"),
        ("<style>a{}</style><script>x()</script><!-- c -->a", "a"),
        (
            "<blockquote style=\"margin:0 0 0 40px;border:none;padding:0px\">a</blockquote>b",
            "a\nb",
        ),
        (
            "<div>a<blockquote type=cite><blockquote>b</blockquote>c</blockquote>d</div>",
            "a\n\nd",
        ),
        ("<div class=yahoo_quoted><div>a</div>b</div>c", "c"),
    ] {
        assert_eq!(of_html(html), expected, "{html}");
    }
}

/// A deterministic random number generator (xorshift, by Marsaglia).
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 16).unwrap() % limit.max(1)
    }
}

#[test]
fn each_line_of_the_new_text_is_a_line_of_the_text() {
    let replies = corpus();
    let lines: Vec<_> = replies
        .iter()
        .filter_map(|reply| reply.text.as_deref())
        .flat_map(str::lines)
        .collect();
    let html: Vec<_> = replies
        .iter()
        .filter_map(|reply| reply.html.as_deref())
        .collect();
    let mut chance = Chance(0x5eed_0fa1_1b1e_55ed);
    for _ in 0..3000 {
        let mut text = String::new();
        for _ in 0..chance.below(40) {
            let line = lines[chance.below(lines.len())];
            let cut = line.floor_char_boundary(if chance.below(5) == 0 {
                chance.below(line.len())
            } else {
                line.len()
            });
            text.push_str(&line[..cut]);
            text.push_str(["\n", "\r\n", "\n\n", "\n> ", "\n-- \n", "\u{a0}\r"][chance.below(6)]);
        }
        let allowed: Vec<_> = text.split('\n').map(str::trim_end).collect();
        for line in of_text(&text).split('\n') {
            assert!(
                line.is_empty() || allowed.contains(&line),
                "{line:?} is not in {text:?}"
            );
        }
    }
    for _ in 0..3000 {
        let mut document = String::new();
        for _ in 0..chance.below(6) {
            let one = html[chance.below(html.len())];
            let [a, b] = [0, 0].map(|_| one.floor_char_boundary(chance.below(one.len())));
            document.push_str(&one[a.min(b)..a.max(b)]);
        }
        assert!(of_html(&document).len() <= document.len() * 2 + 2);
    }
}

/// The limit is generous, because tests run without optimization and next to other programs.
#[test]
fn a_long_text_of_any_pattern_takes_little_time() {
    let confidential =
        "This email is confidential and intended for the recipient only, please delete it.\n";
    for pattern in [
        "x",
        "\n",
        " \n",
        ">\n",
        "> a\nb\n",
        "> a\n\n\nOn 9 Nov 2026 16:12 a@b wrote:\n",
        "From: a\n",
        "From: a\nSent: b\n",
        "From: a\nSent: b\nTo: c\n> d\n",
        "On 9 Nov 2026 16:12 a@b\n",
        "-- \n",
        "--\n",
        "-- \na\n",
        "____________________\n",
        "Sent from my iPhone\n",
        "Regards\n",
        "Regards\n1234567\n",
        confidential,
        &format!("{confidential}\n"),
        "-----Original Message-----\n> a\n",
        "a:",
        "on ",
        "12:34 ",
        "@",
        "É",
        "a b\u{a0}",
        "<",
        "<div>",
        "<p>",
        "<blockquote>",
        "</div>",
        "<br>",
        "<pre>\n",
        "<div class=yahoo_quoted>",
        "<a b='",
        "<!--",
        "&",
        "&nbsp;",
        "<div id=appendonsend>a",
        "<script>",
        "<p>a</p>",
        "<td>a",
    ] {
        let long = pattern.repeat(200_000 / pattern.len());
        let started = Instant::now();
        let lengths = [of_text(&long).len(), of_html(&long).len()];
        assert!(
            lengths.iter().all(|length| *length <= 2 * long.len() + 2),
            "{pattern:?}"
        );
        assert!(
            started.elapsed() < Duration::from_secs(5),
            "{pattern:?}: {:?}",
            started.elapsed()
        );
    }
}
