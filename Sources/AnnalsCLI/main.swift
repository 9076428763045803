print("annals")
