//! The start page, and the API description in a viewer for browsers.

use latchmail_tests::{Response, Service, Variant};

fn text(response: &Response) -> &str {
    assert_eq!(response.status, 200);
    std::str::from_utf8(&response.body).unwrap()
}

/// Returns the API description that the page contains.
async fn shown(service: &Service) -> serde_json::Value {
    let response = service.send("GET /docs").await;
    let (_, rest) = text(&response).split_once("id=\"description\"").unwrap();
    let (_, rest) = rest.split_once('>').unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[tokio::test]
async fn the_start_page_links_to_the_description_for_people_and_for_tools() {
    let service = Service::start().await;
    let request = service
        .request("GET /")
        .header("accept", "application/json");
    let response = Response::of(request).await;
    assert_eq!(
        response.header("content-type"),
        Some("text/html; charset=utf-8")
    );
    let page = text(&response);
    for target in ["/docs", "/api/openapi.json"] {
        assert!(page.contains(&format!("href=\"{target}\"")), "{page}");
    }
    assert!(page.contains("http://service.test/mcp"), "{page}");
}

#[tokio::test]
async fn the_viewer_shows_the_routes_of_a_module_as_soon_as_it_is_installed() {
    let service = Service::with("new_modules.paths = ['/variant/']").await;
    let described = service.send("GET /api/openapi.json").await.succeeds(200);
    assert_eq!(shown(&service).await, described);
    assert!(described["paths"].get("/variant/version").is_none());
    let component = Variant::default().component();
    service.install(&[component]).await;
    let after = shown(&service).await;
    assert!(after["paths"].get("/variant/version").is_some());
    assert_eq!(
        after,
        service.send("GET /api/openapi.json").await.succeeds(200)
    );
}

#[tokio::test]
async fn the_viewer_is_in_a_sandbox_and_loads_only_the_script_of_the_service() {
    let service = Service::start().await;
    let response = service.send("GET /docs").await;
    let policy = response.header("content-security-policy").unwrap();
    let directives: Vec<&str> = policy.split("; ").collect();
    let sandbox = directives.iter().find(|one| one.starts_with("sandbox"));
    assert!(sandbox.unwrap().contains("allow-scripts"));
    // With this, a script could read responses of the service with the cookies of the sign-in
    // pages.
    assert!(!policy.contains("allow-same-origin"));
    for directive in [
        "default-src 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(directives.contains(&directive), "{policy}");
    }
    let again = service.send("GET /docs").await;
    assert_ne!(
        again.header("content-security-policy"),
        Some(policy),
        "the nonce was used again"
    );

    let script = service.send("GET /docs/redoc.js").await;
    assert_eq!(
        script.header("content-type"),
        Some("text/javascript; charset=utf-8")
    );
    // The page has an opaque origin.
    assert_eq!(
        script.header("cross-origin-resource-policy"),
        Some("cross-origin")
    );
    assert!(text(&script).contains("Redoc"));
}
