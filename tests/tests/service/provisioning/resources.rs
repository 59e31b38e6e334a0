//! The resources of the admin API, as a program such as Terraform uses them: what is written is
//! read.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use latchmail_core::caller::Origin;
use latchmail_tests::{PASSWORD, Person, Response, Service, Setup, Variant};
use serde_json::{Value, json};

use super::{ALL, LISTEN, Program, service, service_with_mail, text};

/// The life of a resource.
struct Resource {
    path: &'static str,
    /// The field with the list of the resources.
    list: &'static str,
    /// The field that identifies a resource in its path.
    key: &'static str,
    create: Value,
    changes: Vec<Value>,
}

/// Returns whether `read` has all values of `written`.
fn agrees(written: &Value, read: &Value) -> bool {
    let mut written = written.as_object().unwrap().iter();
    written.all(|(name, value)| read.get(name) == Some(value) || name.starts_with("password"))
}

/// Creates, reads, changes, imports and deletes a resource, without differences between what was
/// written and what is read.
async fn apply(program: &Program, resource: &Resource) {
    let Resource {
        path,
        list,
        key,
        create,
        changes,
    } = resource;
    let line = format!("POST {path}");
    let created = program.send_json(&line, create).await;
    let (etag, location) = (created.header("etag"), created.header("location"));
    let (etag, location) = (etag.unwrap().to_owned(), location.unwrap().to_owned());
    let mut state = created.succeeds(201);
    assert!(agrees(create, &state), "{create} {state}");
    assert!(location.ends_with(text(&state[*key])), "{location}");
    let read = program.send(&format!("GET {location}")).await;
    assert_eq!(read.header("etag"), Some(&*etag));
    assert_eq!(read.succeeds(200), state, "create and read");
    let unchanged = program
        .request(&format!("GET {location}"))
        .header("If-None-Match", &etag);
    assert_eq!(Response::of(unchanged).await.status, 304);
    let page = program.get(&format!("{path}?limit=500")).await;
    assert!(page[*list].as_array().unwrap().contains(&state), "{page}");

    let mut etag = etag;
    for change in changes {
        let patch = program
            .request(&format!("PATCH {location}"))
            .header("If-Match", &etag);
        let changed = Response::of_json(patch, change).await;
        let before = etag;
        etag = changed.header("etag").unwrap_or_default().to_owned();
        state = changed.succeeds(200);
        assert!(agrees(change, &state), "{change} {state}");
        assert_eq!(program.get(&location).await, state, "change and read");
        let late = program
            .request(&format!("PATCH {location}"))
            .header("If-Match", &before);
        let late = Response::of_json(late, change).await;
        assert_eq!(late.status, 412, "{}", late.json);
        // What was read can be written: no field changes.
        let same = program
            .send_json(&format!("PATCH {location}"), &state)
            .await;
        assert_eq!(same.succeeds(200), state, "plan without differences");
    }
    let late = program
        .request(&format!("DELETE {location}"))
        .header("If-Match", "\"none\"");
    assert_eq!(Response::of(late).await.status, 412);
    program
        .send(&format!("DELETE {location}"))
        .await
        .succeeds(200);
}

#[tokio::test]
async fn what_is_written_is_read() {
    let service = service().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let domain = Resource {
        path: "/admin/api/v1/domains",
        list: "domains",
        key: "domain",
        create: json!({ "domain": "third.test", "separator": "+" }),
        changes: vec![
            json!({ "separator": null }),
            json!({ "separator": "+", "catchAll": "ada@first.test" }),
            json!({ "catchAll": null }),
        ],
    };
    service.create_account("ada@first.test").await;
    apply(&program, &domain).await;
    let gone = program.send("GET /admin/api/v1/domains/third.test").await;
    gone.fails(404, "Domain not found");

    let account = Resource {
        path: "/admin/api/v1/accounts",
        list: "accounts",
        key: "id",
        create: json!({
            "address": "grace@first.test", "firstName": "Grace", "lastName": null, "dob": null,
            "active": true, "plan": "default", "admin": false, "forwardTo": "grace@outside.test",
            "externalId": "e-1", "password": PASSWORD,
        }),
        changes: vec![
            json!({ "lastName": "Hopper", "dob": "1906-12-09" }),
            json!({ "forwardTo": null, "externalId": "e-2", "admin": true }),
            json!({ "address": "hopper@first.test" }),
            json!({ "firstName": null, "active": false }),
        ],
    };
    apply(&program, &account).await;
    let page = program.get("/admin/api/v1/accounts?externalId=e-2").await;
    assert_eq!(page["accounts"][0]["active"], false, "a deletion disables");
    let purge = format!(
        "DELETE /admin/api/v1/accounts/{}?purge=true",
        text(&page["accounts"][0]["id"])
    );
    program.send(&purge).await.succeeds(200);
    program
        .send(&purge)
        .await
        .fails(404, "There is no such account");

    let alias = Resource {
        path: "/admin/api/v1/aliases",
        list: "aliases",
        key: "id",
        create: json!({ "address": "shop@first.test", "account": "ada@first.test" }),
        changes: vec![
            json!({ "note": "For the shop", "expiresAt": "2099-01-01T00:00:00.000Z" }),
            json!({ "active": false, "note": null, "expiresAt": null }),
        ],
    };
    apply(&program, &alias).await;
    let gone = program
        .send("GET /admin/api/v1/aliases/shop@first.test")
        .await;
    gone.fails(404, "There is no such alias");
}

#[tokio::test]
async fn values_that_the_configuration_no_longer_allows_can_stay() {
    let service = service().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let created = program
        .send_json(
            "POST /admin/api/v1/accounts",
            &json!({ "address": "ada@first.test" }),
        )
        .await
        .succeeds(201);
    let id = text(&created["id"]);
    let accounts = &service.app().directory.accounts;
    let (now, origin) = (service.clock.now(), Origin::operator());
    let renamed = accounts.rename(id, "ada@former.test", now, &origin);
    renamed.await.unwrap();
    let set = accounts.set_plan(id, "former", now, &origin);
    assert!(set.await.unwrap());
    let path = format!("/admin/api/v1/accounts/{id}");
    let mut account = program.get(&path).await;
    account["firstName"] = "Ada".into();
    let change = format!("PATCH {path}");
    let changed = program.send_json(&change, &account).await.succeeds(200);
    assert_eq!(changed, account);
    for refused in [
        json!({ "address": "augusta@former.test" }),
        json!({ "plan": "unknown" }),
    ] {
        let refused = program.send_json(&change, &refused).await;
        assert_eq!(refused.status, 400, "{}", refused.json);
    }
}

#[tokio::test]
async fn a_module_is_installed_disabled_and_removed() {
    let service = Setup::default()
        .with(LISTEN)
        .with("new_modules.paths = ['/variant/']")
        .start()
        .await;
    let program = Program::new(&service, "terraform", ALL).await;
    let component = STANDARD.encode(Variant::default().component());
    let create = json!({ "component": component, "accept": true });
    let created = program
        .send_json("POST /admin/api/v1/modules", &create)
        .await;
    let location = created.header("location").unwrap().to_owned();
    let module = created.succeeds(201);
    assert_eq!(module["enabled"], true);
    let again = program
        .send_json("POST /admin/api/v1/modules", &create)
        .await;
    assert_eq!(again.succeeds(201), module, "the same component");
    for change in [json!({ "enabled": false }), json!({ "enabled": true })] {
        let changed = program
            .send_json(&format!("PATCH {location}"), &change)
            .await;
        let changed = changed.succeeds(200);
        assert!(agrees(&change, &changed), "{changed}");
        assert_eq!(changed["version"], module["version"]);
        assert_eq!(program.get(&location).await, changed);
    }
    program
        .send(&format!("DELETE {location}"))
        .await
        .succeeds(200);
    assert_eq!(program.send(&format!("GET {location}")).await.status, 404);
}

async fn sign_in(service: &Service, address: &str, password: &str) -> u16 {
    let body = json!({ "email": address, "password": password });
    service.post("/api/v1/auth/login", &body).await.status
}

#[tokio::test]
async fn a_password_or_its_hash_signs_in_until_the_account_is_disabled() {
    let service = service_with_mail().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let accounts = "POST /admin/api/v1/accounts";
    // argon2id with 64 KiB, of the password `Imported-7`, as Dovecot writes it.
    let hash = "{ARGON2ID}$argon2id$v=19$m=64,t=3,p=1$c29tZXNhbHQxMjM0NTY3OA$";
    let refused = json!({ "address": "eve@first.test", "passwordHash": hash });
    program
        .send_json(accounts, &refused)
        .await
        .fails_mentioning(400, "passwordHash");
    let both = json!({ "address": "eve@first.test", "password": "a", "passwordHash": "b" });
    program
        .send_json(accounts, &both)
        .await
        .fails_mentioning(400, "cannot be combined");

    service.create_account("bob@first.test").await;
    let directory = &service.app().directory.accounts;
    let bob = directory
        .by_address("bob@first.test")
        .await
        .unwrap()
        .unwrap();
    let eve = json!({ "address": "Eve@first.test", "passwordHash": bob.password_hash });
    let eve = program.send_json(accounts, &eve).await.succeeds(201);
    assert_eq!(eve["address"], "eve@first.test");
    assert_eq!(sign_in(&service, "eve@first.test", PASSWORD).await, 200);
    let path = format!("PATCH /admin/api/v1/accounts/{}", text(&eve["id"]));
    let change = json!({ "password": "short1" });
    program.send_json(&path, &change).await.succeeds(200);
    assert_eq!(sign_in(&service, "eve@first.test", "short1").await, 200);
    program
        .send_json(&path, &json!({ "password": null }))
        .await
        .succeeds(200);
    assert_eq!(sign_in(&service, "eve@first.test", "short1").await, 401);
    program.send_json(&path, &change).await.succeeds(200);
    let disabled = program.send_json(&path, &json!({ "active": false })).await;
    disabled.succeeds(200);
    assert_eq!(sign_in(&service, "eve@first.test", "short1").await, 401);
    let audit = service.operator("audit --json --account eve@first.test", "");
    let audit = audit.await.succeeds();
    assert!(audit.contains("operator token terraform"), "{audit}");
}

#[tokio::test]
async fn a_repeated_creation_creates_nothing() {
    let service = service().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let create = async |key: &str, path: &str, body: &Value| {
        let request = program.request(&format!("POST /admin/api/v1/{path}"));
        Response::of_json(request.header("Idempotency-Key", key), body).await
    };
    for (path, body, changed) in [
        (
            "accounts",
            json!({ "address": "ada@first.test" }),
            json!({ "address": "eve@first.test" }),
        ),
        (
            "domains",
            json!({ "domain": "third.test" }),
            json!({ "domain": "fourth.test" }),
        ),
        (
            "aliases",
            json!({ "address": "shop@first.test", "account": "ada@first.test" }),
            json!({ "address": "other@first.test", "account": "ada@first.test" }),
        ),
    ] {
        let key = format!("key-{path}");
        let first = create(&key, path, &body).await.succeeds(201);
        let again = create(&key, path, &body).await.succeeds(201);
        assert_eq!(first, again);
        let reused = create(&key, path, &changed).await;
        reused.fails(409, "This Idempotency-Key was used for another request");
        let other = create("another", path, &body).await;
        assert_eq!(other.status, 409, "{}", other.json);
    }
    let invalid = create("a b", "accounts", &json!({ "address": "x@first.test" })).await;
    invalid.fails(
        400,
        "Idempotency-Key must be 1 to 255 visible ASCII characters",
    );
}

#[tokio::test]
async fn pages_contain_every_account_once() {
    let service = service().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let mut expected = Vec::new();
    for number in 0..7 {
        let address = format!("person{number}@first.test");
        service.create_account(&address).await;
        expected.push(address);
    }
    let mut found = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = program
            .get(&format!("/admin/api/v1/accounts?limit=3{cursor}"))
            .await;
        let accounts = page["accounts"].as_array().unwrap();
        assert!(accounts.len() <= 3);
        found.extend(accounts.iter().map(|one| text(&one["address"]).to_owned()));
        let Some(next) = page["nextCursor"].as_str() else {
            break;
        };
        let elsewhere = format!("GET /admin/api/v1/aliases?cursor={next}");
        program.send(&elsewhere).await.fails(400, "Invalid cursor");
        cursor = format!("&cursor={next}");
    }
    found.sort_unstable();
    assert_eq!(found, expected);
    for invalid in ["limit=0", "limit=501", "limit=x", "active=1"] {
        let line = format!("GET /admin/api/v1/accounts?{invalid}");
        assert_eq!(program.send(&line).await.status, 400, "{invalid}");
    }
}

#[tokio::test]
async fn a_grant_is_suspended_and_resumed() {
    let service = service().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let ada = service.person("ada").await;
    let token = ada.token(&["aliases:read"]).await;
    let secret = text(&token["token"]);
    let found = program
        .get("/admin/api/v1/accounts?address=ada@first.test")
        .await;
    let account = format!(
        "/admin/api/v1/accounts/{}",
        text(&found["accounts"][0]["id"])
    );
    let grants = program.get(&format!("{account}/grants")).await;
    let grant = &grants["grants"][0];
    assert_eq!(
        (&grant["kind"], &grant["suspended"]),
        (&json!("token"), &json!(false))
    );
    assert_eq!(grants["pendingHolds"], 0);
    let grant = format!("{account}/grants/{}", text(&grant["id"]));
    let status = async || {
        service
            .with_bearer("GET /api/v1/aliases", secret)
            .await
            .status
    };
    assert_eq!(status().await, 200);
    program
        .send(&format!("POST {grant}/suspend"))
        .await
        .succeeds(200);
    assert_eq!(status().await, 403);
    program
        .send(&format!("POST {grant}/resume"))
        .await
        .succeeds(200);
    assert_eq!(status().await, 200);
    program.send(&format!("DELETE {grant}")).await.succeeds(200);
    assert_eq!(status().await, 401);
    let gone = program.send(&format!("POST {grant}/suspend")).await;
    gone.fails(404, "There is no such grant");
    let events = program.get(&format!("{account}/events?limit=3")).await;
    let kinds: Vec<&str> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| text(&one["type"]))
        .collect();
    assert_eq!(kinds, ["token_revoked", "grant_resumed", "grant_suspended"]);
    assert_eq!(events["events"][0]["actor"], "operator token terraform");
}

#[tokio::test]
async fn an_account_receives_mail_at_its_former_address() {
    let service = Setup::default().with(LISTEN).with_mail().start().await;
    let program = Program::new(&service, "terraform", ALL).await;
    let body = json!({ "address": "grace@first.test", "password": PASSWORD });
    let created = program
        .send_json("POST /admin/api/v1/accounts", &body)
        .await
        .succeeds(201);
    let path = format!("PATCH /admin/api/v1/accounts/{}", text(&created["id"]));
    let renamed = json!({ "address": "hopper@first.test" });
    program.send_json(&path, &renamed).await.succeeds(200);
    let aliases = program
        .get("/admin/api/v1/aliases?account=hopper@first.test")
        .await;
    assert_eq!(aliases["aliases"][0]["address"], "grace@first.test");
    service
        .deliver("grace@first.test", "Subject: To the old address\n\nHello\n")
        .await;
    let hopper = Person::sign_in(&service, "hopper@first.test", PASSWORD).await;
    hopper.wait_for_message("To the old address").await;
}
