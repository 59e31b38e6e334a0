//! Tests of the fake host and of [`Service`]: they accept and refuse the same requests as the real
//! host.

use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{FakeHost, Letter, NOW, Service, manifest_error};
use crate::capability::{
    Aliases as _, Blob, Caller, Claimed, Config, Credentials as _, Domains as _, Draft, Error,
    File, FlagAction, HttpClient as _, HttpResponse, Kind, Level, Log, Mailbox as _, Missing,
    NewGrant, Outbox as _, Page, QuerySyntax, Refused, Right, Scope, Search, SortOrder, Store as _,
    Target, Teams as _, Verification,
};
use crate::{Failure, Module, Reply, Request, Route};

#[utoipa::path(get, path = "/api/v1/who", operation_id = "who", responses((status = 200)))]
fn who(host: &impl Caller, _: &Request) -> Result<Reply, Failure> {
    let kind = host.current().kind;
    Reply::json(&json!({ "who": host.current().address, "anonymous": kind == Kind::Anonymous }))
}

#[utoipa::path(get, path = "/api/v1/echo/{word}", operation_id = "echo", responses((status = 200)))]
fn echo(_: &impl Caller, request: &Request) -> Result<Reply, Failure> {
    Reply::json(&json!([
        request.path("word"),
        request.query("q"),
        request.headers
    ]))
}

#[utoipa::path(get, path = "/api/v1/echo/plain", operation_id = "plain", responses((status = 200)))]
fn plain(_: &impl Caller, _: &Request) -> Result<Reply, Failure> {
    Reply::json(&"plain")
}

#[utoipa::path(post, path = "/api/v1/files", operation_id = "files", responses((status = 200)))]
fn files(_: &impl Caller, request: &Request) -> Result<Reply, Failure> {
    let body: Value = request.json()?;
    let index = body["file"].as_u64().unwrap_or_default();
    match request.take_blob(usize::try_from(index).unwrap_or_default()) {
        Some(Blob::Bytes(bytes)) => Reply::json(&String::from_utf8_lossy(&bytes)),
        _ => Err(Failure::not_found("No such file")),
    }
}

#[derive(OpenApi)]
#[openapi(paths(who, echo, plain, files))]
struct Description;

#[utoipa::path(get, path = "/api/v1/x{y}", operation_id = "odd", responses((status = 200)))]
fn odd(_: &impl Caller, _: &Request) -> Result<Reply, Failure> {
    Reply::json(&())
}

#[derive(OpenApi)]
#[openapi(paths(odd))]
struct Odd;

fn routes<H: Caller>() -> [Route<H>; 4] {
    [
        Route::new("who", who).public(),
        Route::new("echo", echo).scoped(Scope::MailRead),
        Route::new("plain", plain),
        Route::new("files", files).takes(100).blob_field("/file"),
    ]
}

fn module<H: Caller>() -> Module<H> {
    let module = Module::new("try-outs", "1.2.3", Description::openapi);
    routes().into_iter().fold(module, Module::route)
}

#[test]
fn a_route_is_found_by_its_method_and_its_path() {
    let service = Service::of(module());
    let echoed = service.request(
        "GET",
        "/api/v1/echo/a%2Fb?q=x+y",
        &[("Accept", "text/plain"), ("Cookie", "secret")],
        Vec::new(),
    );
    let expected = json!(["a/b", "x y", [["accept", "text/plain"]]]);
    assert_eq!(echoed.succeeds(200), expected);
    assert_eq!(service.get("/api/v1/echo/plain").succeeds(200), "plain");
    let unknown = service.get("/api/v1/echo/a/b");
    unknown.fails(404, "There is no such route");
    service
        .delete("/api/v1/who")
        .fails(405, "This route does not support this method");
    assert_eq!(service.get("/api/v1/echo/%ff").status, 400);
}

#[test]
fn a_route_accepts_only_the_declared_credentials() {
    let service = Service::of(module());
    let status = |path: &str| service.get(path).status;
    service.host.use_token(&[Scope::MailRead]);
    assert_eq!(
        (status("/api/v1/echo/x"), status("/api/v1/echo/plain")),
        (200, 403)
    );
    service.host.use_token(&[Scope::MailWrite]);
    assert_eq!(status("/api/v1/echo/x"), 403);
    // The route does not allow OAuth tokens, whatever their scopes.
    service.host.use_oauth();
    assert_eq!(status("/api/v1/echo/x"), 403);
    service.host.sign_out();
    assert_eq!(status("/api/v1/echo/x"), 401);
}

#[test]
fn a_public_route_has_no_caller() {
    let service = Service::of(module());
    let anonymous = json!({ "who": "", "anonymous": true });
    assert_eq!(service.get("/api/v1/who").succeeds(200), anonymous);
    assert_eq!(service.host.current().address, "ada@example.test");
}

#[test]
fn files_are_decoded_and_the_size_of_bodies_is_limited() {
    let service = Service::of(module());
    let sent = service.post("/api/v1/files", &json!({ "file": "SGVsbG8=" }));
    assert_eq!(sent.succeeds(200), "Hello");
    assert_eq!(
        service.post("/api/v1/files", &json!({ "file": 7 })).status,
        400
    );
    let large = service.post("/api/v1/files", &"x".repeat(100));
    large.fails(413, "The request's body is larger than 100 bytes");
    let none = service.request("GET", "/api/v1/who", &[], vec![b'x']);
    none.fails(413, "This route accepts no request body");
}

#[test]
fn the_error_of_an_invalid_manifest_names_the_fault() {
    let name = |name: &'static str| {
        let module = Module::<FakeHost>::new(name, "1.2.3", Description::openapi);
        manifest_error(&routes().into_iter().fold(module, Module::route))
    };
    assert_eq!(name("fine"), None);
    const TOO_LONG: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(TOO_LONG.len(), 33);
    for bad in ["", "Fine", "a b", TOO_LONG] {
        assert!(name(bad).unwrap().contains("lower-case letters"), "{bad}");
    }
    let without = |left_out: usize| {
        let module = Module::<FakeHost>::new("fine", "1.2.3", Description::openapi);
        let kept = routes()
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at != left_out);
        manifest_error(&kept.map(|(_, route)| route).fold(module, Module::route)).unwrap()
    };
    assert!(without(0).contains("(GET /api/v1/who), which is not a route of the module"));
    let twice = module::<FakeHost>().route(Route::new("who", who));
    assert_eq!(
        manifest_error(&twice).unwrap(),
        "two routes have the operation \"who\""
    );
    let undescribed = module::<FakeHost>().route(Route::new("more", who));
    assert_eq!(
        manifest_error(&undescribed).unwrap(),
        "the description has no operation \"more\""
    );
    let odd = Module::<FakeHost>::new("fine", "1.2.3", Odd::openapi).route(Route::new("odd", odd));
    assert!(manifest_error(&odd).unwrap().contains("whole `{names}`"));
    let version = Module::<FakeHost>::new("fine", "1.2", Description::openapi);
    assert!(
        manifest_error(&version)
            .unwrap()
            .contains("major.minor.patch")
    );
}

#[test]
fn a_capability_checks_the_credential() {
    let host = FakeHost::new();
    let uid = host.deliver(Letter::from("a@example.org"));
    host.use_token(&[Scope::MailRead]);
    assert!(host.get_message(uid).is_ok());
    let refused = host.delete_messages(&[uid]);
    assert!(matches!(refused, Err(Error::Denied(_))));
    assert!(matches!(host.list_domains(), Err(Error::Denied(_))));
    assert!(host.set_value("k", b"v").is_ok());
    host.sign_out();
    assert!(matches!(host.get_value("k"), Err(Error::Denied(_))));
    assert!(matches!(host.list_folders(), Err(Error::Denied(_))));
}

#[test]
fn a_moved_message_keeps_its_number() {
    let host = FakeHost::new();
    let letter = Letter::from("Grace <grace@example.org>")
        .subject("One")
        .text("a  b\nc");
    let first = host.deliver(letter.file("a.txt", "text/plain", b"abc"));
    let second = host.deliver(Letter::from("x@example.org").flag("\\Seen"));
    let page = |offset| Page { offset, limit: 1 };
    let newest = host.list_messages("INBOX", page(0)).unwrap();
    assert_eq!(
        (newest.total, newest.messages[0].uid, newest.messages[0].seq),
        (2, second, 2)
    );
    assert_eq!(
        host.move_messages(&[first, 99], "Archive").unwrap(),
        [first]
    );
    let moved = host.get_message(first).unwrap();
    assert_eq!(
        (moved.summary.seq, moved.summary.preview.as_str()),
        (1, "a b c")
    );
    assert_eq!(moved.summary.from[0].name, "Grace");
    let (_, blob) = host.get_attachment(first, 0).unwrap().unwrap();
    assert!(matches!(blob, Blob::Bytes(bytes) if bytes == b"abc"));
    assert!(host.get_attachment(first, 1).unwrap().is_none());
    let search = Search {
        query: "oNe".into(),
        syntax: QuerySyntax::Operators,
        folder: Some("Archive".into()),
        sort: SortOrder::Newest,
        page: page(0),
    };
    let found = host.search_messages(&search).unwrap();
    assert_eq!(found.total, 1);
    host.set_flags(&[first], &["\\Seen".into(), "Work".into()], FlagAction::Add)
        .unwrap();
    host.set_flags(&[first], &["Work".into()], FlagAction::Remove)
        .unwrap();
    assert_eq!(host.get_message(first).unwrap().summary.flags, ["\\Seen"]);
    assert!(
        host.set_flags(&[first], &["\\Deleted".into()], FlagAction::Add)
            .is_err()
    );
    let folders = host.list_folders().unwrap();
    let (inbox, archive) = (
        &folders[0],
        folders.iter().find(|f| f.path == "Archive").unwrap(),
    );
    assert_eq!(
        (inbox.path.as_str(), inbox.messages, archive.unseen),
        ("INBOX", 1, 0)
    );
    host.delete_messages(&[first]).unwrap();
    assert!(matches!(host.get_message(first), Err(Error::NotFound)));
    assert_eq!(host.deliver(Letter::from("y@example.org")), second + 1);
}

#[test]
fn sent_messages_are_stored_once_per_idempotency_key() {
    let host = FakeHost::new();
    let draft = |text: &str| Draft {
        from: "ada@example.test".into(),
        to: vec![super::letter::address("b@example.org")],
        text: Some(text.into()),
        files: vec![File {
            filename: "a".into(),
            content_type: "text/plain".into(),
            content: Blob::Bytes(b"abc".to_vec()),
        }],
        ..Draft::default()
    };
    let sent = host.send(draft("Hello"), Some("k")).unwrap();
    let again = host.send(draft("Hello"), Some("k")).unwrap();
    assert!(again.replayed && again.message_id == sent.message_id);
    assert!(matches!(
        host.send(draft("Other"), Some("k")),
        Err(Error::Conflict(_))
    ));
    assert_eq!(
        (
            host.sent().len(),
            host.sent()[0].files[0].content.as_slice()
        ),
        (1, &b"abc"[..])
    );
    let filed = host
        .list_messages(
            "Sent",
            Page {
                offset: 0,
                limit: 9,
            },
        )
        .unwrap();
    assert_eq!(
        (filed.total, filed.messages[0].preview.as_str()),
        (1, "Hello")
    );
    let forged = Draft {
        from: "eve@example.test".into(),
        ..draft("Hello")
    };
    assert!(matches!(host.send(forged, None), Err(Error::Denied(_))));
    let alias = host.create_alias("shop", "example.test").unwrap();
    assert!(host.check_sender("shop@example.test").is_ok());
    host.set_alias_active(alias.id, false).unwrap();
    assert!(host.check_sender("shop@example.test").is_err());
}

#[test]
fn each_account_has_its_own_values_and_a_quota() {
    let host = FakeHost::new();
    host.set_value("a/1", b"1").unwrap();
    host.set_value("a/2", b"2").unwrap();
    host.set_value("b", b"3").unwrap();
    assert_eq!(host.list_keys("a/", None, 10).unwrap(), ["a/1", "a/2"]);
    assert_eq!(host.list_keys("", Some("a/1"), 1).unwrap(), ["a/2"]);
    assert!(host.list_keys("", None, 0).is_err());
    assert!(!host.compare_and_set("b", None, Some(b"4")).unwrap());
    assert!(host.compare_and_set("b", Some(b"3"), None).unwrap());
    assert_eq!(host.get_value("b").unwrap(), None);
    for bad in ["", "a\n", &"k".repeat(257)] {
        assert!(
            matches!(host.set_value(bad, b""), Err(Error::Invalid(_))),
            "{bad:?}"
        );
    }
    let large = host.set_value("c", &vec![0; 65_537]);
    assert!(matches!(large, Err(Error::TooLarge(_))));
    host.set_quota(200);
    assert!(matches!(host.set_value("c", b"x"), Err(Error::TooLarge(_))));
    host.delete_value("a/1").unwrap();
    assert!(host.set_value("c", b"x").is_ok());
    host.sign_in("grace@example.test");
    assert!(host.stored_values().is_empty());
}

#[test]
fn remote_servers_return_the_responses_of_the_test() {
    let host = FakeHost::new();
    let request = |url: &str| crate::capability::HttpRequest {
        method: "GET".into(),
        url: url.into(),
        headers: Vec::new(),
        body: Vec::new(),
        timeout: None,
    };
    let response = HttpResponse {
        status: 418,
        headers: Vec::new(),
        body: b"tea".to_vec(),
    };
    host.set_response("GET", "https://api.example.com/", Ok(response));
    assert_eq!(
        host.fetch(&request("https://api.example.com/"))
            .unwrap()
            .status,
        418
    );
    let refused = host.fetch(&request("https://other.example.com/"));
    assert!(matches!(refused, Err(Error::Denied(_))));
    assert_eq!(host.requests().len(), 2);
}

#[test]
fn domains_credentials_settings_and_logs_are_supported() {
    let host = FakeHost::new();
    assert!(
        matches!(host.claim_domain("Ada.Example").unwrap(), Claimed::Created(d) if d.name == "ada.example")
    );
    assert!(matches!(
        host.verify_domain("ada.example").unwrap(),
        Verification::Missing
    ));
    host.prove_domain("ada.example");
    assert!(matches!(
        host.verify_domain("ada.example").unwrap(),
        Verification::Active(_)
    ));
    host.create_alias("shop", "ada.example").unwrap();
    assert!(matches!(
        host.release_domain("ada.example"),
        Err(Error::Conflict(_))
    ));
    let token = host
        .create_token("a script", &[Scope::MailRead], Some(1), 1)
        .unwrap();
    assert_eq!(token.token.expires_at, Some(NOW + 24 * 60 * 60 * 1000));
    assert!(
        host.create_token("one more", &[Scope::MailRead], None, 1)
            .is_err()
    );
    let backing = &host.list_credentials().unwrap()[0].id;
    assert!(host.revoke_app_password(backing).is_ok());
    host.revoke_token(&token.token.id).unwrap();
    assert!(host.list_tokens().unwrap().is_empty());
    host.set("colour", "green");
    assert_eq!(Config::get(&host, "colour").as_deref(), Some("green"));
    host.write(Level::Warn, "careful");
    assert!(matches!(&host.log()[..], [(Level::Warn, line)] if line == "careful"));
    host.fail(Error::Internal);
    assert!(matches!(host.list_folders(), Err(Error::Internal)));
    host.recover();
    assert!(host.list_folders().is_ok());
}

#[test]
fn a_mailbox_is_shared_with_invited_members() {
    let host = FakeHost::new();
    let (ada, bob, cyd) = ("ada@example.test", "bob@example.test", "cyd@example.test");
    for address in [bob, cyd, ada] {
        host.sign_in(address);
    }
    let all = |rights: &[Right]| NewGrant {
        target: Target::Mailbox,
        label: None,
        rights: rights.into(),
    };
    let password = "Correct-Horse-7";
    let managing = all(&[Right::MembersManage, Right::MailRead]);
    let wrong = host.invite_member(ada, "bob", "Wrong-Horse-7", &managing);
    assert!(matches!(wrong, Err(Refused::Failed(Error::Denied(_)))));
    host.invite_member(ada, "bob", password, &managing).unwrap();
    let again = host.invite_member(ada, "bob", password, &managing);
    assert!(matches!(again, Err(Refused::Failed(Error::Conflict(_)))));

    host.sign_in(bob);
    assert_eq!(host.list_teams().unwrap().len(), 2);
    let wider = host.invite_member(ada, "cyd", password, &all(&[Right::MailWrite]));
    assert!(matches!(wider, Err(Refused::Failed(Error::Denied(_)))));
    let read = all(&[Right::MailRead]);
    let invited = host.invite_member(ada, "cyd", password, &read).unwrap();
    let wider = host.change_grant(ada, &invited.grant, &[Right::MailWrite]);
    assert!(matches!(wider, Err(Refused::Failed(Error::Denied(_)))));
    host.use_token(&[Scope::MailRead]);
    assert!(matches!(host.list_teams(), Err(Error::Denied(_))));

    host.sign_in(cyd);
    assert_eq!(host.team(ada).unwrap().members.len(), 2);
    let refused = host.revoke_grant(ada, &invited.grant);
    assert!(matches!(refused, Err(Refused::Failed(Error::Denied(_)))));
    host.remove_member(ada, cyd).unwrap();
    assert!(matches!(host.team(ada), Err(Error::NotFound)));
    let gone = host.add_grant(ada, cyd, &read);
    assert!(matches!(gone, Err(Refused::Missing(Missing::Team))));
}
