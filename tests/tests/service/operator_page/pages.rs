//! The other pages: domains, servers, hosts and rate limits.

use latchmail_tests::Setup;
use latchmail_tests::administrator::{Administrator, PageForm};

use super::{ROOT, service};

/// The paths of all pages in the navigation.
const PATHS: [&str; 6] = [
    "/admin/modules",
    "/admin/accounts",
    "/admin/domains",
    "/admin/mail-server",
    "/admin/limits",
    "/admin/log",
];

#[tokio::test]
async fn every_page_is_in_the_navigation_and_needs_a_session() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    for path in PATHS {
        let page = browser.page(path).await;
        for other in PATHS {
            assert!(
                page.contains(&format!("href=\"{other}\"")),
                "{path} {other}"
            );
        }
        assert!(page.contains(&format!("href=\"{path}\" aria-current=\"page\"")));
        assert!(page.contains(" scope=\"row\""), "{path}");
        for form in PageForm::all(&page) {
            assert!(form.fields.contains_key("csrf"), "{form:?}");
        }
    }
    browser.set_cookie("");
    for path in PATHS {
        let response = browser.get(path).await;
        assert_eq!(response.status, 303);
        assert_eq!(response.header("location"), Some("/admin/sign-in"));
    }
    let style = browser.get("/admin/style.css").await;
    assert_eq!(style.header("content-type"), Some("text/css"));
}

#[tokio::test]
async fn the_pages_show_domains_checks_of_servers_and_this_host() {
    let service = service().await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let domains = browser.page("/admin/domains").await;
    assert!(domains.contains("first.test") && domains.contains("second.test"));
    let servers = browser.page("/admin/mail-server").await;
    assert!(servers.contains("(this host)"), "{servers}");
    // Nothing listens at the addresses of the mail server, and doveadm is not configured.
    for (check, state, detail) in [
        ("database", "OK", ""),
        ("imap", "Failed", "127.0.0.1:1"),
        ("imap", "Failed", "start the IMAP server"),
        ("doveadm", "Warning", "imap.doveadm"),
        ("smtp", "Failed", "127.0.0.1:1"),
        ("modules", "OK", "all enabled modules serve"),
    ] {
        let shown = check_row(&servers, check);
        assert!(shown.contains(&format!(">{state}<")), "{shown}");
        assert!(shown.contains(detail), "{shown}");
    }
}

/// Returns the row of a check on the page of the mail server.
fn check_row<'a>(page: &'a str, check: &str) -> &'a str {
    let start = format!("<th scope=\"row\">{check}</th>");
    let (_, row) = page.split_once(&start).unwrap();
    row.split("</tr>").next().unwrap()
}

#[tokio::test]
async fn the_page_of_the_mail_server_shows_the_checks_of_doctor() {
    let service = Setup::default()
        .with("admin.listen = '127.0.0.1:0'")
        .with_mail()
        .start()
        .await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    let servers = browser.page("/admin/mail-server").await;
    for (check, detail) in [("imap", "Dovecot at "), ("smtp", "TLS not used")] {
        let shown = check_row(&servers, check);
        assert!(shown.contains(">OK<"), "{shown}");
        assert!(shown.contains(detail), "{shown}");
    }
    assert!(servers.contains("IMAP</dt>"), "{servers}");
    assert!(servers.contains("Open streams</dt>"), "{servers}");
}

#[tokio::test]
async fn the_page_of_the_rate_limits_counts_rejected_requests() {
    let service = Setup::default()
        .with("admin.listen = '127.0.0.1:0'\nlimits.readiness = 2")
        .start()
        .await;
    let root = Administrator::create(&service, ROOT).await;
    let browser = root.sign_in().await;
    for _ in 0..5 {
        service.send("GET /api/readiness").await;
    }
    let page = browser.page("/admin/limits").await;
    let (_, row) = page.split_once("<th scope=\"row\">readiness</th>").unwrap();
    let row = row.split("</tr>").next().unwrap();
    assert!(row.contains(">2<") && row.contains(">3<"), "{row}");
    assert!(row.contains("<time "), "{row}");
    // The page has the numbers of the metrics, also those of limits that are not a number of
    // requests.
    let (_, row) = page.split_once("sign_in_address</th>").unwrap();
    assert!(row.split("</tr>").next().unwrap().contains(">0<"), "{row}");
}
