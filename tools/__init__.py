"""Programs that make characters and measure the service. The product never imports them."""
