//! Agents and tokens: suspension, end, policies, journals, and the policy on the sign-in page.

use latchmail_tests::administrator::{FormBrowser, PageForm, text};
use latchmail_tests::client::between;
use latchmail_tests::{Client, message_with_subject};
use serde_json::json;

use super::{FOLDERS, assert_done, policy, service, service_with, string, use_preset};

#[tokio::test]
async fn agents_and_tokens_are_suspended_resumed_and_deleted_at_once() {
    let service = service().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read"]).await;
    let agent = Client::register(&service).await;
    let tokens = agent.tokens(&ada).await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let list = browser.page("/account/grants").await;
    assert!(
        list.contains("Test agent") && list.contains("a token"),
        "{list}"
    );
    let grants = ada.send("GET /api/v1/profile/grants").await.succeeds(200);
    let grants = grants["grants"].as_array().unwrap();
    let agent = grants.iter().find(|one| one["kind"] == "oauth").unwrap();
    for (grant, secret) in [
        (string(agent, "id"), tokens.access.as_str()),
        (string(&token, "id"), string(&token, "token")),
    ] {
        let path = format!("/account/grants/{grant}");
        for (button, notice, status) in [
            ("Suspend", "is suspended", 403),
            ("Resume", "is active again", 200),
        ] {
            let done = browser.press(&path, (button, ""), &[]).await;
            assert_done(&browser, &done, notice).await;
            let used = service.with_bearer(FOLDERS, secret).await;
            assert_eq!(used.status, status, "{button}");
        }
        let ended = browser.press_and_confirm(&path, ("Delete", "/end"), &[]);
        assert_done(&browser, &ended.await, "is deleted").await;
        assert_eq!(service.with_bearer(FOLDERS, secret).await.status, 401);
        assert_eq!(browser.get(&path).await.status, 404);
    }
    assert!(
        browser
            .page("/account/grants")
            .await
            .contains("No agent and no token")
    );
}

#[tokio::test]
async fn a_token_is_created_and_shown_once() {
    let service = service().await;
    let ada = service.person("ada").await;
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let list = "/account/grants";
    let read = ("mail:read", "yes");
    // The form has a checkbox for each scope. A browser sends only selected checkboxes.
    let create = async |values: &[(&str, &str)]| {
        let mut form = PageForm::named(&browser.page(list).await, "Create");
        form.fields.retain(|name, _| name == "csrf");
        for (name, value) in values {
            form.fields.insert((*name).into(), (*value).into());
        }
        browser.submit(&form).await
    };
    for refused in [
        vec![("label", "CI")],
        vec![("label", "  "), read],
        vec![("label", "CI"), read, ("days", "0")],
        vec![("label", "CI"), read, ("days", "366")],
        vec![("label", "CI"), read, ("days", "soon")],
    ] {
        assert_eq!(create(&refused).await.status, 400, "{refused:?}");
    }
    let created = create(&[("label", "CI & <b>"), read, ("days", "30")]).await;
    let page = text(&created);
    assert_eq!(created.status, 200, "{page}");
    let secret = between(&page, "<code>", "</code>");
    let used = service.with_bearer(FOLDERS, &secret).await;
    assert_eq!(used.status, 200, "{}", text(&used));
    let page = browser.page(list).await;
    assert!(page.contains("CI &amp; &lt;b&gt;"), "{page}");
    assert!(!page.contains(&secret), "{page}");
    let grants = ada.send("GET /api/v1/profile/grants").await.succeeds(200);
    let grants = grants["grants"].as_array().unwrap();
    assert_eq!(grants.len(), 1, "{grants:?}");
    assert_eq!(grants[0]["scopes"], json!(["mail:read"]));
    assert!(grants[0]["expiresAt"].is_string(), "{grants:?}");
}

#[tokio::test]
async fn a_policy_is_chosen_by_name_or_by_its_fields_and_shown_in_words() {
    let service = service().await;
    let ada = service.person("ada").await;
    let token = ada.token(&["mail:read", "mail:send"]).await;
    let grant = string(&token, "id");
    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let path = format!("/account/grants/{grant}");
    assert!(browser.page(&path).await.contains("There is no policy"));
    for (preset, send, words) in [
        ("reader", "never", "It may not send mail"),
        (
            "assistant",
            "thread",
            "people to whom you wrote in the same thread",
        ),
        ("autonomous", "any", "It may send to everyone"),
    ] {
        use_preset(&browser, grant, preset).await;
        assert_eq!(policy(&ada, grant).await["send"], send);
        assert!(browser.page(&path).await.contains(words), "{preset}");
    }
    let edit = format!("{path}/policy");
    let page = browser.page(&edit).await;
    let mut form = PageForm::named(&page, "Save the policy");
    form.fields.remove("allFolders");
    form.fields.remove("aliases");
    for (name, value) in [
        ("send", "list"),
        ("sendTo", "Ann@elsewhere.example\r\n\r\n @friends.example"),
        ("sendPerDay", "3"),
        ("recipientsPerDay", ""),
        ("folders", "INBOX"),
        ("delete", "never"),
        ("onDenied", "hold"),
        ("until", "2036-01-31T12:30"),
    ] {
        form.fields.insert(name.into(), value.into());
    }
    let mut invalid = form.clone();
    invalid.fields.insert("sendPerDay".into(), "many".into());
    let refused = browser.submit(&invalid).await;
    assert_eq!(refused.status, 400);
    let page = text(&refused);
    assert!(
        page.contains("must be a whole number") && page.contains("@friends.example"),
        "{page}"
    );
    assert_eq!(policy(&ada, grant).await["send"], "any");
    let saved = browser.submit(&form).await;
    assert_done(&browser, &saved, "is changed").await;
    let expected = json!({
        "send": "list", "sendTo": ["ann@elsewhere.example", "@friends.example"],
        "sendPerDay": 3, "recipientsPerDay": null, "folders": ["INBOX"], "attachments": true,
        "hideCodes": true, "delete": "never", "onDenied": "hold", "aliases": false,
        "until": "2036-01-31T12:30:00.000Z",
    });
    assert_eq!(policy(&ada, grant).await, expected);
    let page = browser.page(&path).await;
    for words in [
        "ann@elsewhere.example",
        "at most 3 messages a day",
        "until 2036-01-31 12:30 UTC",
    ] {
        assert!(page.contains(words), "{words}: {page}");
    }
}

#[tokio::test]
async fn changes_of_a_token_are_listed_and_undone() {
    let service = service().await;
    let ada = service.person("ada").await;
    let message = message_with_subject("Minutes");
    ada.receive_raw(message.as_bytes()).await;
    let uid = ada.uid_of("INBOX", "Minutes").await;
    let token = ada.token(&["mail:read", "mail:write"]).await;
    let flag = json!({ "flags": ["\\Flagged"], "action": "add" });
    let request = service.request(&format!("POST /api/v1/mail/messages/{uid}/flag"));
    let request = request.bearer_auth(string(&token, "token"));
    latchmail_tests::Response::of_json(request, &flag)
        .await
        .succeeds(200);
    let flags = async || ada.newest().await["flags"].to_string();
    assert!(flags().await.contains("Flagged"));

    let browser = FormBrowser::of_owner(&service, &ada.address).await;
    let journal = format!("/account/grants/{}/journal", string(&token, "id"));
    let page = browser.page(&journal).await;
    assert!(page.contains("flags") && page.contains("Flagged"), "{page}");
    let question = browser
        .press(&journal, ("Undo", "/rewind"), &[("span", "1d")])
        .await;
    let page = text(&question);
    assert!(
        page.contains("It is active and can make new changes"),
        "{page}"
    );
    assert!(flags().await.contains("Flagged"), "only asked");
    let undone = browser.submit(&PageForm::named(&page, "Undo")).await;
    let page = text(&undone);
    assert_eq!(undone.status, 200, "{page}");
    assert!(page.contains("Changes undone: 1."), "{page}");
    assert!(!flags().await.contains("Flagged"));
    assert!(browser.page(&journal).await.contains("undone"));
}

#[tokio::test]
async fn the_sign_in_page_of_an_agent_shows_the_policy_that_it_will_get() {
    for (settings, words) in [
        ("", "No policy limits these permissions"),
        (
            "grants.default_policy = 'assistant'",
            "people to whom you wrote in the same thread",
        ),
    ] {
        let service = service_with(settings).await;
        let ada = service.person("ada").await;
        let agent = Client::register(&service).await;
        let page = agent.login_page(&[]).await;
        assert!(page.text.contains(words), "{}", page.text);
        agent.tokens(&ada).await;
        let browser = FormBrowser::of_owner(&service, &ada.address).await;
        let list = browser.page("/account/grants").await;
        assert_eq!(list.contains("No policy."), settings.is_empty(), "{list}");
    }
}
