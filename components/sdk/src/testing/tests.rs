//! Tests of [`Service`], and of the functions with which a test controls a [`FakeHost`]. The
//! scenarios of the contract test the capabilities of a [`FakeHost`].

use latchmail_shape::codes;
use serde_json::{Value, json};
use utoipa::OpenApi;

use super::{FakeHost, Service, manifest_error};
use crate::capability::{
    Aliases as _, Blob, Caller, Domains as _, Error, HttpClient as _, HttpResponse, Kind, Level,
    Log as _, Mailbox as _, Scope, Store as _, Verification,
};
use crate::{Failure, Module, Reply, Request, Route};

#[utoipa::path(get, path = "/api/v1/who", operation_id = "who", responses((status = 200)))]
fn who(host: &impl Caller, _: &Request) -> Result<Reply, Failure> {
    let kind = host.current().kind();
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
        _ => Err(Failure::not_found(codes::NOT_FOUND, "No such file")),
    }
}

/// Returns the sizes of the blobs with the indexes 0 and 1.
#[utoipa::path(post, path = "/api/v1/raw", operation_id = "raw", responses((status = 200)))]
fn raw(_: &impl Caller, request: &Request) -> Result<Reply, Failure> {
    let size = |index| Some(request.take_blob(index)?.in_memory()?.len());
    Reply::json(&[size(0), size(1)])
}

#[derive(OpenApi)]
#[openapi(paths(who, echo, plain, files, raw))]
struct Description;

#[utoipa::path(get, path = "/api/v1/x{y}", operation_id = "odd", responses((status = 200)))]
fn odd(_: &impl Caller, _: &Request) -> Result<Reply, Failure> {
    Reply::json(&())
}

#[derive(OpenApi)]
#[openapi(paths(odd))]
struct Odd;

fn routes<H: Caller>() -> [Route<H>; 5] {
    [
        Route::new("who", who).public(),
        Route::new("echo", echo).scoped(Scope::MailRead),
        Route::new("plain", plain),
        Route::new("files", files).takes(100).blob_field("/file"),
        Route::new("raw", raw).takes_blob(100),
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
fn a_body_that_stays_in_the_host_is_one_blob() {
    let service = Service::of(module());
    let sent = service.request("POST", "/api/v1/raw", &[], b"Hello".to_vec());
    assert_eq!(sent.succeeds(200), json!([5, null]));
}

#[test]
fn the_error_of_an_invalid_manifest_names_the_fault() {
    let name = |name: &'static str| {
        let module = Module::<FakeHost>::new(name, "1.2.3", Description::openapi);
        manifest_error(&routes().into_iter().fold(module, Module::route))
    };
    assert_eq!(name("fine"), None);
    let too_long = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(too_long.len(), 33);
    for bad in ["", "Fine", "a b", too_long] {
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
    assert!(
        manifest_error(&odd)
            .unwrap()
            .contains("a name in braces such as `{name}`")
    );
    let version = Module::<FakeHost>::new("fine", "1.2", Description::openapi);
    assert!(
        manifest_error(&version)
            .unwrap()
            .contains("major.minor.patch")
    );
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
fn a_test_controls_what_the_fake_host_returns() {
    let host = FakeHost::new();
    host.set_quota(200);
    host.set_value("a", &[0; 100]).unwrap();
    assert!(matches!(
        host.set_value("b", &[0; 100]),
        Err(Error::TooLarge(_))
    ));
    assert_eq!(host.stored_values().len(), 1);

    host.claim_domain("ada.example").unwrap();
    let missing = host.verify_domain("ada.example").unwrap();
    assert!(matches!(missing, Verification::Missing));
    host.prove_domain("ada.example");
    let active = host.verify_domain("ada.example").unwrap();
    assert!(matches!(active, Verification::Active(_)));
    host.create_alias("shop", "ada.example").unwrap();
    let refused = host.release_domain("ada.example");
    assert!(matches!(refused, Err(Error::Conflict(_))));

    host.write(Level::Warn, "careful");
    assert!(matches!(&host.log()[..], [(Level::Warn, line)] if line == "careful"));
    host.fail(Error::Internal);
    assert!(matches!(host.list_folders(), Err(Error::Internal)));
    host.recover();
    assert!(host.list_folders().is_ok());

    host.use_token(&[Scope::MailRead]);
    assert_eq!(host.current().kind(), Kind::ApiToken);
    assert!(matches!(host.list_domains(), Err(Error::Denied(_))));
}
