"""HTTP/1.1 on its port: connections, requests and answers, whatever the calls are."""
