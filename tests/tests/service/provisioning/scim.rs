//! SCIM, with the exchanges that Microsoft Entra ID and Okta document.

use std::time::Duration;

use latchmail_tests::{Response, Setup};
use serde_json::{Value, json};

use super::{ALL, LISTEN, Program, service, service_with_mail, text};

const USER: &str = "urn:ietf:params:scim:schemas:core:2.0:User";
const PATCH: &str = "urn:ietf:params:scim:api:messages:2.0:PatchOp";
const MEDIA_TYPE: &str = "application/scim+json";

/// Sends a request as identity providers do.
async fn send(program: &Program, line: &str, body: &Value) -> Response {
    let request = program.request(line).header("Accept", MEDIA_TYPE);
    let request = if body.is_null() {
        request
    } else {
        request
            .header("Content-Type", MEDIA_TYPE)
            .body(body.to_string())
    };
    let response = Response::of(request).await;
    if response.status != 204 {
        assert_eq!(response.header("content-type"), Some(MEDIA_TYPE), "{line}");
    }
    response
}

/// Asserts an error in the format of SCIM.
#[track_caller]
fn fails(response: &Response, status: u16, scim_type: Option<&str>) {
    let error = &response.json;
    assert_eq!(response.status, status, "{error}");
    let schema = "urn:ietf:params:scim:api:messages:2.0:Error";
    assert_eq!(error["schemas"], json!([schema]));
    assert_eq!(error["status"], status.to_string());
    assert_eq!(
        error.get("scimType").and_then(Value::as_str),
        scim_type,
        "{error}"
    );
    assert!(error["detail"].is_string());
}

#[tokio::test]
async fn the_exchange_of_entra_id() {
    let service = service().await;
    let entra = Program::new(&service, "entra", "scim").await;
    // The test of the connection.
    let path = "GET /scim/v2/Users?filter=userName+eq+%22a9f1c1b0-none%22";
    let none = send(&entra, path, &Value::Null).await.succeeds(200);
    assert_eq!(none["totalResults"], 0);
    assert_eq!(none["Resources"], json!([]));

    let user = json!({
        "schemas": [USER, "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
        "externalId": "0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef",
        "userName": "Test_User@First.test",
        "active": true,
        "emails": [{ "primary": true, "type": "work", "value": "other@first.test" }],
        "meta": { "resourceType": "User" },
        "name": { "formatted": "givenName familyName", "familyName": "familyName", "givenName": "givenName" },
        "roles": [],
        "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": { "department": "R" },
    });
    let created = send(&entra, "POST /scim/v2/Users", &user).await;
    let location = created.header("location").unwrap().to_owned();
    let created = created.succeeds(201);
    assert_eq!(created["meta"]["location"], location);
    assert_eq!(created["userName"], "Test_User@First.test");
    assert_eq!(created["emails"][0]["value"], "test_user@first.test");
    assert_eq!(
        created["name"],
        json!({ "familyName": "familyName", "givenName": "givenName" })
    );
    let path = format!("/scim/v2/Users/{}", text(&created["id"]));
    let read = send(&entra, &format!("GET {path}"), &Value::Null).await;
    assert_eq!(read.header("etag"), created["meta"]["version"].as_str());
    assert_eq!(read.succeeds(200), created);
    let again = send(&entra, "POST /scim/v2/Users", &user).await;
    fails(&again, 409, Some("uniqueness"));
    for filter in [
        "userName eq \"TEST_user@first.test\"",
        "externalId eq \"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef\"",
        "userName eq \"test_user@first.test\" and active eq true",
    ] {
        let query: String = url::form_urlencoded::byte_serialize(filter.as_bytes()).collect();
        let found = send(
            &entra,
            &format!("GET /scim/v2/Users?filter={query}"),
            &Value::Null,
        )
        .await;
        assert_eq!(
            found.succeeds(200)["Resources"],
            json!([created]),
            "{filter}"
        );
    }
    let unsupported = "GET /scim/v2/Users?filter=userName+sw+%22a%22";
    let unsupported = send(&entra, unsupported, &Value::Null).await;
    fails(&unsupported, 400, Some("invalidFilter"));

    let change = async |operations: Value| {
        let body = json!({ "schemas": [PATCH], "Operations": operations });
        send(&entra, &format!("PATCH {path}"), &body).await
    };
    let changed = change(json!([
        { "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "updated@first.test" },
        { "op": "Replace", "path": "name.familyName", "value": "updatedFamilyName" },
        { "op": "Add", "path": "displayName", "value": "Updated" },
        { "op": "Replace", "path": "userName", "value": "5b50642d@first.test" },
    ]));
    let changed = changed.await.succeeds(200);
    assert_eq!(changed["userName"], "5b50642d@first.test");
    assert_eq!(changed["name"]["familyName"], "updatedFamilyName");
    assert_eq!(changed["displayName"], "Updated");
    let disabled = change(json!([{ "op": "Replace", "path": "active", "value": "False" }]));
    assert_eq!(disabled.await.succeeds(200)["active"], false);
    let enabled = change(json!([{ "op": "Replace", "path": "active", "value": "True" }]));
    assert_eq!(enabled.await.succeeds(200)["active"], true);
    let read_only = change(json!([{ "op": "Replace", "path": "id", "value": "x" }])).await;
    fails(&read_only, 400, Some("mutability"));

    let deleted = send(&entra, &format!("DELETE {path}"), &Value::Null).await;
    assert_eq!((deleted.status, deleted.body.len()), (204, 0));
    for line in [format!("GET {path}"), format!("DELETE {path}")] {
        fails(&send(&entra, &line, &Value::Null).await, 404, None);
    }
    let mut again = user.clone();
    again["userName"] = "again@first.test".into();
    let again = send(&entra, "POST /scim/v2/Users", &again)
        .await
        .succeeds(201);
    assert_eq!(again["externalId"], user["externalId"]);
    // The account is only disabled until the grace period is over.
    let operator = Program::new(&service, "terraform", ALL).await;
    let account = format!("/admin/api/v1/accounts/{}", text(&created["id"]));
    let account = operator.get(&account).await;
    assert!(
        account["active"] == false && account["deletesAt"].is_string(),
        "{account}"
    );
    service.clock.advance(Duration::from_hours(24 * 31));
    let gone = format!("GET /admin/api/v1/accounts/{}", text(&created["id"]));
    operator
        .send(&gone)
        .await
        .fails(404, "There is no such account");
}

#[tokio::test]
async fn the_exchange_of_okta() {
    let service = service_with_mail().await;
    let okta = Program::new(&service, "okta", "scim").await;
    let path =
        "GET /scim/v2/Users?filter=userName+eq+%22test.user%40first.test%22&startIndex=1&count=100";
    let none = send(&okta, path, &Value::Null).await.succeeds(200);
    assert_eq!(
        (&none["totalResults"], &none["startIndex"]),
        (&json!(0), &json!(1))
    );
    let user = json!({
        "schemas": [USER], "userName": "test.user@first.test",
        "name": { "givenName": "Test", "familyName": "User" },
        "emails": [{ "primary": true, "value": "test.user@first.test", "type": "work" }],
        "displayName": "Test User", "locale": "en-US", "externalId": "00ujl29u0le5T6Aj10h7",
        "groups": [], "password": "1mz050nq", "active": true,
    });
    let created = send(&okta, "POST /scim/v2/Users", &user)
        .await
        .succeeds(201);
    assert!(created.get("password").is_none());
    let sign_in = json!({ "email": "test.user@first.test", "password": "1mz050nq" });
    let status = async || service.post("/api/v1/auth/login", &sign_in).await.status;
    assert_eq!(status().await, 200);
    let path = format!("/scim/v2/Users/{}", text(&created["id"]));
    let mut replaced = created.clone();
    replaced["name"]["familyName"] = "Changed".into();
    replaced.as_object_mut().unwrap().remove("displayName");
    let replaced = send(&okta, &format!("PUT {path}"), &replaced)
        .await
        .succeeds(200);
    assert_eq!(replaced["name"]["familyName"], "Changed");
    assert!(replaced.get("displayName").is_none());
    assert_eq!(status().await, 200, "the password stays");
    let deactivate = json!({
        "schemas": [PATCH], "Operations": [{ "op": "replace", "value": { "active": false } }],
    });
    let disabled = send(&okta, &format!("PATCH {path}"), &deactivate).await;
    assert_eq!(disabled.succeeds(200)["active"], false);
    assert_eq!(status().await, 401);
    let activate = json!({
        "schemas": [PATCH], "Operations": [{ "op": "replace", "value": { "active": true } }],
    });
    send(&okta, &format!("PATCH {path}"), &activate)
        .await
        .succeeds(200);
    assert_eq!(status().await, 200);
}

#[tokio::test]
async fn users_are_listed_in_pages() {
    let service = service().await;
    let program = Program::new(&service, "entra", "scim").await;
    for number in 0..5 {
        let user = json!({ "schemas": [USER], "userName": format!("user{number}") });
        let created = send(&program, "POST /scim/v2/Users", &user)
            .await
            .succeeds(201);
        assert_eq!(created["userName"], format!("user{number}"));
        assert_eq!(
            created["emails"][0]["value"],
            format!("user{number}@first.test")
        );
    }
    let mut ids = Vec::new();
    for start in [1, 3, 5] {
        let path = format!("GET /scim/v2/Users?startIndex={start}&count=2");
        let page = send(&program, &path, &Value::Null).await.succeeds(200);
        assert_eq!(
            (&page["totalResults"], &page["startIndex"]),
            (&json!(5), &json!(start))
        );
        let users = page["Resources"].as_array().unwrap();
        assert_eq!(page["itemsPerPage"], users.len());
        ids.extend(users.iter().map(|user| text(&user["id"]).to_owned()));
    }
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 5);
    let only = send(&program, "GET /scim/v2/Users?count=0", &Value::Null).await;
    let only = only.succeeds(200);
    assert_eq!(
        (&only["totalResults"], &only["Resources"]),
        (&json!(5), &json!([]))
    );
    let search = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:SearchRequest"],
        "filter": "active eq true", "attributes": ["userName"], "count": 1,
    });
    let found = send(&program, "POST /scim/v2/Users/.search", &search)
        .await
        .succeeds(200);
    let user = found["Resources"][0].as_object().unwrap();
    let names: Vec<&str> = user.keys().map(String::as_str).collect();
    assert_eq!(
        (names.len(), &found["totalResults"]),
        (3, &json!(5)),
        "{names:?}"
    );
    let path = format!("/scim/v2/Users/{}", ids[0]);
    let stale = program
        .request(&format!("PATCH {path}"))
        .header("If-Match", "\"none\"");
    let body = json!({ "Operations": [{ "op": "replace", "path": "active", "value": false }] });
    fails(&Response::of_json(stale, &body).await, 412, None);
}

#[tokio::test]
async fn every_error_has_the_format_of_scim() {
    let settings = format!("{LISTEN}\nscim.listen = '127.0.0.1:0'");
    let service = Setup::default().with(&settings).start().await;
    let mut program = Program::new(&service, "entra", "scim").await;
    let elsewhere = program.send("GET /scim/v2/Users").await;
    assert_eq!(
        elsewhere.status, 404,
        "the listener of the operator has no SCIM then"
    );
    program.base = service.scim();
    send(&program, "GET /scim/v2/Users", &Value::Null)
        .await
        .succeeds(200);
    let nothing = send(&program, "GET /scim/v2/nothing", &Value::Null).await;
    fails(&nothing, 404, None);
    let method = send(&program, "DELETE /scim/v2/Schemas", &Value::Null).await;
    fails(&method, 405, None);
    let filtered = send(&program, "GET /scim/v2/Schemas?filter=a", &Value::Null).await;
    fails(&filtered, 403, None);
    let invalid = program.request("POST /scim/v2/Users").body("{");
    fails(&Response::of(invalid).await, 400, Some("invalidSyntax"));
    let foreign = json!({ "schemas": [USER], "userName": "ada@elsewhere.test" });
    let foreign = send(&program, "POST /scim/v2/Users", &foreign).await;
    fails(&foreign, 400, Some("invalidValue"));
    let other = Program::new(&service, "other", "accounts:read").await;
    program.token = other.token;
    fails(
        &send(&program, "GET /scim/v2/Users", &Value::Null).await,
        403,
        None,
    );
    program.token = "none".into();
    fails(
        &send(&program, "GET /scim/v2/Users", &Value::Null).await,
        401,
        None,
    );
}
